"""Follows a partition's events, each with what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from engine.apply.machine import Applied, Machine, Record
from engine.commands.registry import keys_of
from engine.store.store import MaintainedStore
from ops.config import Settings
from ops.past.history import Touch, meta_of, outcome_of
from ops.past.walk import Past, Pieces, apply_all, take, walked
from ops.state.rebuilding.replay_plan import Until, opened
from slotlog.shared.errors import EventError

if TYPE_CHECKING:
    from slotlog.log import LogRecord

_FETCH_RECORDS_MAX: Final = 1000
_FETCH_WAIT_MS: Final = 500


class Follower(Protocol):
    """Takes a partition's events, in order."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""
        ...

    def begin(self, machine: Machine, store: MaintainedStore) -> None:
        """Take the state before the first event. To be called once."""
        ...

    def step(self, machine: Machine, records: Sequence[Record], raw: Sequence[LogRecord]) -> None:
        """Apply some records, from the first one on, and commit wherever something is told."""
        ...

    async def may_apply(self, to_offset: int) -> None:
        """Wait until what stands before `to_offset` may be applied."""
        ...

    async def applied(self, next_offset: int) -> None:
        """Everything before `next_offset` is applied."""
        ...


Tell = Callable[[Touch, list[tuple[int, bytes]]], bool]
"""Told of an event, with the keys that it changed, each behind its database. Whether it wants more."""


class Tail:
    """Applies events one by one, and tells of those that have to do with some keys.

    Args:
        matches: whether a key is one of them; None: every event is told, also one that has to do with no key.
        tell: see `Tell`.

    Attributes:
        is_over: nothing more is wanted.
    """

    def __init__(self, matches: Callable[[bytes], bool] | None, tell: Tell) -> None:
        self._matches, self._tell = matches, tell
        self.is_over = False

    def begin(self, machine: Machine, _store: MaintainedStore) -> None:
        """Let the machine say what it changes."""
        machine.witnessing = True

    def step(self, machine: Machine, records: Sequence[Record], raw: Sequence[LogRecord]) -> None:
        """Apply some records."""
        values = {offset: value for offset, _, _, value in raw}
        for record in records:
            if self.is_over:
                return
            offset, time_ms, name, args, _, event_id, _ = record
            applied = machine.apply([record], machine.next_offset, {offset})
            machine.commit(None)  # so that nothing is taken back that was told
            changed = list(dict.fromkeys((each[1], each[5]) for each in applied.modified))
            if self._wants(record, applied):
                outcome, reply = outcome_of(applied, offset)
                meta = meta_of(values[offset])
                touch = Touch(offset, time_ms, (name, *args), event_id, meta, outcome, reply, bool(changed), None, None)
                self.is_over = not self._tell(touch, changed)

    async def may_apply(self, to_offset: int) -> None:
        """It may: nobody else is asked."""

    async def applied(self, next_offset: int) -> None:
        """It was told already."""

    def _wants(self, record: Record, applied: Applied) -> bool:
        matches = self._matches
        if matches is None or any(matches(each[5]) for each in applied.modified):
            return True
        commands = record[3] if record[2] == b"EXEC" else [[record[2], *record[3]]]
        return any(matches(key) for name, *args in commands for key in _keys(name, args))


def _keys(name: bytes, args: list[bytes]) -> list[bytes]:
    try:
        return keys_of(name.upper(), args)
    except EventError:  # it is a dead letter
        return []


async def follow(settings: Settings, partition: int, begin: Until, follower: Follower) -> None:
    """Let `follower` take the events from `begin` on, and those that come, until it is over.

    Args:
        settings: the log, and where snapshots are.
        partition: one of the topic's.
        begin: the first event; it is applied to the state as it was then.
        follower: takes them.

    Raises:
        As `walked`, and as `Reader.fetch`.
    """
    async with walked(settings, partition, begin, apply_all, from_snapshot=True) as past:
        machine = past.machine
        follower.begin(machine, past.store)
        log = opened(settings)
        await log.start()
        reader = log.reader({partition: machine.next_offset})
        pieces = Pieces()
        try:
            while not follower.is_over:
                fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
                to_offset = reader.position(partition)
                await follower.may_apply(to_offset)
                await _take_all(follower, past, pieces, fetched.get(partition, []))
                if to_offset > machine.next_offset and not follower.is_over:  # markers of transactions, no record
                    machine.apply((), machine.next_offset, to_offset=to_offset)
                    machine.commit(None)
                await follower.applied(machine.next_offset)
        finally:
            await reader.close()
            await log.close()


async def _take_all(follower: Follower, past: Past, pieces: Pieces, records: Sequence[LogRecord]) -> None:
    """Let it take the records, with a pause wherever it has much to tell; not all of them if it is over."""
    async for piece in pieces.of(records):
        left = piece
        while left:
            if follower.is_over:
                return
            await take(follower.step, past.store, past.machine, left)
            left = [each for each in left if each[0] >= past.machine.next_offset]
            if past.machine.next_offset <= records[-1][0]:
                await follower.applied(past.machine.next_offset)
