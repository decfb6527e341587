"""Finds what came into the log after a dead letter: the same record, or events of its keys.

The record itself is known by its `id`: then it need not be sent. Dead letters do not count: they were never applied.
What counts as touching a key is naming it, also to read it; a FLUSHALL and the like touch every key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.apply.machine import Record
from engine.commands.registry import find, keys_of
from ops.progress import progress
from slotlog.events import decode
from slotlog.log import Log
from slotlog.shared.errors import EventError

_FETCH_WAIT_MS: Final = 500
_FETCH_RECORDS_MAX: Final = 5000

Place: TypeAlias = tuple[int, int]
"""(partition, offset)."""

Key: TypeAlias = tuple[int, bytes] | None
"""(database, key); None stands for every key."""


@dataclass(slots=True)
class Resendable:
    """A record that may be appended again.

    Attributes:
        partition: where its keys are, and where it would go.
        from_offset: events before this offset came before it.
        keys: those of its event.
        event_id: the idempotency key that it has, or would be given.
        copy_at: the offset at which it is in the log already; -1 when it is not.
        later: how many events of these keys came after it.
        first_later: the offset of the first of those in `partition`; -1 when there is none.
    """

    partition: int
    from_offset: int
    keys: frozenset[Key]
    event_id: bytes = b""
    copy_at: int = -1
    later: int = 0
    first_later: int = -1


def keys_of_event(record: Record) -> frozenset[Key]:
    """The keys of an event; none when it can never be applied.

    Args:
        record: as `decode` gives it.
    """
    _, _, name, args, db, *_ = record
    commands = args if name == b"EXEC" else [[name, *args]]
    event_keys: set[Key] = set()
    try:
        for command, *rest in commands:
            keys = keys_of(command, rest)
            event_keys.update((db, key) for key in keys)
            spec = find(command)
            if not keys and spec.write and not spec.internal:
                event_keys.add(None)
    except EventError:
        return frozenset()
    return frozenset(event_keys)


async def look_behind(log: Log, candidates: Sequence[Resendable], dead: Collection[Place]) -> None:
    """Read the log from each candidate to its end, and count in it the later events of its keys.

    Args:
        log: started.
        candidates: filled in.
        dead: the positions of all dead letters.

    Raises:
        LogUnavailableError: the log cannot be read.
    """
    by_partition: dict[int, list[Resendable]] = {}
    for candidate in candidates:
        by_partition.setdefault(candidate.partition, []).append(candidate)
    for partition, there in by_partition.items():
        await _look(log, partition, there, dead)


async def _look(log: Log, partition: int, candidates: list[Resendable], dead: Collection[Place]) -> None:
    start = max(min(candidate.from_offset for candidate in candidates), await log.begin_offset(partition))
    end = await log.high_watermark(partition)  # what an open transaction holds up counts: it is waited for
    by_key: dict[Key, list[Resendable]] = {}
    for candidate in candidates:
        for key in candidate.keys:
            by_key.setdefault(key, []).append(candidate)
    by_id = {candidate.event_id: candidate for candidate in candidates}
    reader = log.reader({partition: start})
    try:
        with progress(f"reading partition {partition}", max(0, end - start), "records") as advance:
            while reader.position(partition) < end:
                fetched = await reader.fetch(_FETCH_WAIT_MS, _FETCH_RECORDS_MAX)
                for offset, time_ms, _, value in fetched.get(partition, ()):
                    if offset < end and (partition, offset) not in dead:
                        record = decode(offset, time_ms, value)
                        _count(offset, keys_of_event(record), by_id.get(record[5] or b""), candidates, by_key)
                advance(min(end, reader.position(partition)) - start)
                await asyncio.sleep(0)  # as in `records_between`
    finally:
        await reader.close()


def _count(
    offset: int,
    event_keys: frozenset[Key],
    same: Resendable | None,
    candidates: list[Resendable],
    by_key: dict[Key, list[Resendable]],
) -> None:
    """Count one event, which may be a candidate's own record, in the candidates that share a key with it."""
    if same is not None and same.copy_at < 0 and offset >= same.from_offset:
        same.copy_at = offset
    if None in event_keys:
        hit = {id(candidate): candidate for candidate in candidates}
    else:
        hit = {id(candidate): candidate for key in event_keys for candidate in by_key.get(key, ())}
        if event_keys:
            hit |= {id(candidate): candidate for candidate in by_key.get(None, ())}
    for candidate in hit.values():
        if offset >= candidate.from_offset and candidate is not same:
            candidate.later += 1
            candidate.first_later = offset if candidate.first_later < 0 else candidate.first_later
