"""Reads parts of a partition's log: runs of records, or some at known offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord, Reader

_FETCH_WAIT_MS: Final = 500
_FETCH_RECORDS_MAX: Final = 1000
_NEAR_OFFSETS: Final = 64
"""Records nearer than that to each other are read together with those between them."""


async def records_between(log: Log, partition: int, begin: int, end: int) -> AsyncIterator[list[LogRecord]]:
    """All records from `begin` to before `end`, in lists.

    Raises:
        As `Reader.fetch`.
    """
    if begin >= end:
        return
    reader = log.reader({partition: begin})
    try:
        async for records in _until(reader, partition, end):
            yield records
    finally:
        await reader.close()


async def records_at(log: Log, partition: int, offsets: Sequence[int]) -> list[LogRecord]:
    """The records at these offsets, ascending.

    Raises:
        As `Reader.fetch`.
    """
    if not offsets:
        return []
    found: list[LogRecord] = []
    wanted = set(offsets)
    reader = log.reader({partition: offsets[0]})
    try:
        for first, last in _runs(offsets):
            reader.seek(partition, first)
            async for records in _until(reader, partition, last + 1):
                found += [each for each in records if each[0] in wanted]
    finally:
        await reader.close()
    return found


async def _until(reader: Reader, partition: int, end: int) -> AsyncIterator[list[LogRecord]]:
    while reader.position(partition) < end:
        most = min(_FETCH_RECORDS_MAX, end - reader.position(partition))
        fetched = (await reader.fetch(_FETCH_WAIT_MS, most)).get(partition, [])
        yield [each for each in fetched if each[0] < end]
        # A page of the embedded log is there at once, and Ctrl-C is heard in a turn of the event loop alone.
        await asyncio.sleep(0)


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of those that are read together."""
    begin = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or offsets[at] - offsets[at - 1] > _NEAR_OFFSETS:
            yield offsets[begin], offsets[at - 1]
            begin = at
