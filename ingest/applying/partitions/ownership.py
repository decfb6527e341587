"""Knows who applies which partition, and warns of one with two owners or none.

Nobody assigns partitions: the settings of each worker name its own. So two workers may own the same partition, each
with a state of its own. Both states are right, because both apply the log, but a client that writes through one and
reads from the other may read an old value. Or no worker owns it. Workers write what they own into the log
(`Log.claims`), again and again: an owner counts while it does. No clock of another machine is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import Final

import structlog

from slotlog.log import Log

ALIVE_SECONDS: Final = 15.0
"""An owner that has not been heard of for so long is gone; Kafka has a claim every 5 s."""

_LOOK_SECONDS: Final = 2.0

logger = structlog.get_logger(__name__)


def _is_not(_owner: str) -> bool:
    return False


class Ownership:
    """A worker's knowledge of the owners of all partitions.

    Args:
        log: started.
        owner: names this worker among all of them, now and at other times; operators read it.
        own: its partitions; they may change.

    Attributes:
        is_arranged: whether nobody is to be warned of another owner, such as a member of the same group.
    """

    def __init__(self, log: Log, owner: str, own: Collection[int]) -> None:
        self.owner = owner
        self._log = log
        self._own = own
        self.is_arranged: Callable[[str], bool] = _is_not
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
        claims = await self._log.claims(self.owner, sorted(self._own))
        if claims is None:
            return
        now = monotonic()
        if now - self._known_at > ALIVE_SECONDS:
            self._known_since = now
        self._known_at = now
        for partition, owners in claims.items():
            for owner in owners:
                self._note(partition, owner, now)
        self._tell()

    def others(self, partition: int) -> list[str]:
        """The other owners of a partition."""
        now = monotonic()
        alive = self._alive.get(partition, {})
        heard = [owner for owner, heard_at in alive.items() if now - heard_at <= ALIVE_SECONDS]
        return [owner for owner in heard if partition not in self._own or not self.is_arranged(owner)]

    def owners(self, partition: int) -> int:
        """How many workers own a partition, as far as is known."""
        return len(self.others(partition)) + (partition in self._own)

    def unowned(self) -> list[int] | None:
        """Partitions that nobody owns; None while that is not known: the log does not tell, or not for long enough."""
        now = monotonic()
        foreign = [partition for partition in range(self._log.partitions) if partition not in self._own]
        if foreign and (now - self._known_at > ALIVE_SECONDS or now - self._known_since < ALIVE_SECONDS):
            return None
        return [partition for partition in foreign if not self.others(partition)]

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
                hint = "stop one of them, or tell it other partitions (--own)"
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
