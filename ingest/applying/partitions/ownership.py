"""Knows who applies which partition, and warns of one with two owners or none.

Nobody assigns partitions: the settings of each worker name its own. So two workers may own the same partition, each
with a state of its own. Both states are right, because both apply the log, but a client that writes through one and
reads from the other may read an old value. Or no worker owns it. Workers write what they own into the log
(`Log.claims`), again and again: an owner counts while it does. No clock of another machine is used.

A group assigns partitions to its members, so its members' claims are no conflict. Nor is what a member claimed before
it left: a worker that has ended takes no claim back, as the next owner's has its place in Kafka. Who claims a partition
after it has left the group is a second owner again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import Final

import structlog

from slotlog.log import Log

ALIVE_SECONDS: Final = 15.0
"""An owner that has not been heard of for so long is gone; Kafka has a claim every 5 s."""

_LOOK_SECONDS: Final = 2.0
_HINT: Final = "stop one of them, or tell it other partitions (--own)"
_HINT_IN_GROUP: Final = "stop the others: they are no members of this worker's group"

logger = structlog.get_logger(__name__)


def _no_members() -> Sequence[str]:
    return ()


class Ownership:
    """A worker's knowledge of the owners of all partitions.

    Args:
        log: started.
        owner: names this worker among all of them, now and at other times; operators read it.
        own: its partitions; they may change.

    Attributes:
        members: names the members of this worker's group now, itself among them; of none without a group.
    """

    def __init__(self, log: Log, owner: str, own: Collection[int]) -> None:
        self.owner = owner
        self._log = log
        self._own = own
        self.members: Callable[[], Collection[str]] = _no_members
        self._lately_members: set[str] = set()  # at the last look that was answered, or since
        self._arranged_until: dict[str, float] = {}  # by member: what it has claimed by then is no conflict
        self._owned_before: set[int] = set()  # at the last look
        self._given_up_at: dict[int, float] = {}
        self._seen: dict[int, dict[str, None]] = {}
        self._alive: dict[int, dict[str, float]] = {}
        self._known_since = 0.0
        self._known_at = 0.0
        self._said_twice: dict[int, list[str]] = {}
        self._said_unowned: list[int] = []

    async def run(self) -> None:
        """Run `look` again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                logger.exception("ownership_failed")
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Publish what this worker owns, read what others own, and warn of conflicts."""
        own, members = sorted(self._own), set(self.members())
        self._note_given_up(own)
        self._lately_members |= members
        claims = await self._log.claims(self.owner, own)
        if claims is None:
            return
        now = monotonic()
        if now - self._known_at > ALIVE_SECONDS:
            self._known_since = now
        self._known_at = now
        self._arrange(now)
        self._lately_members = members  # not what they are by now: who left meanwhile may have claimed after the answer
        for partition, owners in claims.items():
            for owner in owners:
                self._note(partition, owner, now)
        self._tell()

    def others(self, partition: int) -> list[str]:
        """The other owners of a partition. The members of this worker's group count as one: who claimed it last."""
        now = monotonic()
        alive = self._alive.get(partition, {})
        heard = [owner for owner, heard_at in alive.items() if now - heard_at <= ALIVE_SECONDS]
        arranged = [owner for owner in heard if self._is_arranged(owner, alive[owner])]
        last = None if partition in self._own or not arranged else max(arranged, key=alive.__getitem__)
        return [owner for owner in heard if owner not in arranged or owner == last]

    def owners(self, partition: int) -> int:
        """How many workers own a partition, as far as is known."""
        return len(self.others(partition)) + (partition in self._own)

    def unowned(self) -> list[int] | None:
        """Partitions that nobody owns; None while that is not known: the log does not tell, or not for long enough."""
        now = monotonic()
        foreign = [partition for partition in range(self._log.partitions) if partition not in self._own]
        if foreign and (now - self._known_at > ALIVE_SECONDS or now - self._known_since < ALIVE_SECONDS):
            return None
        return [each for each in foreign if not self.others(each) and not self._has_just_owned(each, now)]

    def warnings(self) -> list[str]:
        """A sentence for each conflict, for an operator."""
        twice = [
            f"partition {partition} has another owner too, {' and '.join(others)}: reads may be old there and here"
            for partition in sorted(self._own)
            if (others := self.others(partition))
        ]
        unowned = self.unowned()
        return [*twice, f"nobody owns the partitions {unowned}: nothing is applied there"] if unowned else twice

    # ------------------------------------------------------------------ inside

    def _note_given_up(self, own: Collection[int]) -> None:
        """Note since when this worker does not own what it has owned: the next owner's claim takes a while to come."""
        self._given_up_at.update(dict.fromkeys(self._owned_before.difference(own), monotonic()))
        self._owned_before = set(own)

    def _has_just_owned(self, partition: int, now: float) -> bool:
        given_up_at = self._given_up_at.get(partition)
        return partition in self._owned_before or (given_up_at is not None and now - given_up_at < ALIVE_SECONDS)

    def _arrange(self, now: float) -> None:
        """Note whose claims are no conflict: what is heard now a member may have written before it left."""
        self._arranged_until.update(dict.fromkeys(self._lately_members, now))
        for owner in [owner for owner, until in self._arranged_until.items() if now - until > ALIVE_SECONDS]:
            del self._arranged_until[owner]  # it has no claim that counts

    def _is_arranged(self, owner: str, heard_at: float) -> bool:
        return owner in self.members() or heard_at <= self._arranged_until.get(owner, -1.0)

    def _note(self, partition: int, owner: str, now: float) -> None:
        """Note that an owner published a claim. One that is new has replaced the earlier owners.

        If it has not, they will say so again.
        """
        if owner == self.owner:
            return
        seen, alive = self._seen.setdefault(partition, {}), self._alive.setdefault(partition, {})
        if owner not in seen:
            seen[owner] = None
            alive.clear()
        alive[owner] = now

    def _tell(self) -> None:
        """Log what has changed."""
        twice = {partition: others for partition in sorted(self._own) if (others := self.others(partition))}
        for partition in _changed(twice, self._said_twice):
            if partition in twice:
                hint = _HINT_IN_GROUP if self.members() else _HINT
                logger.error("owned_twice", partition=partition, owner=self.owner, others=twice[partition], hint=hint)
            else:
                logger.info("owned_once", partition=partition, owner=self.owner)
        unowned = self.unowned() or []
        if unowned and unowned != self._said_unowned:
            logger.error("owned_by_nobody", partitions=unowned)
        elif self._said_unowned and not unowned:
            logger.info("owned_by_somebody", partitions=self._said_unowned)
        self._said_twice, self._said_unowned = twice, unowned


def _changed(now: dict[int, list[str]], before: dict[int, list[str]]) -> Iterable[int]:
    return [partition for partition in {**before, **now} if now.get(partition) != before.get(partition)]
