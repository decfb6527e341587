"""Reads parts of a partition's log: runs of records, or some at known offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

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
        while reader.position(partition) < end:
            most = min(_FETCH_RECORDS_MAX, end - reader.position(partition))
            fetched = (await reader.fetch(_FETCH_WAIT_MS, most)).get(partition, [])
            yield [each for each in fetched if each[0] < end]
    finally:
        await reader.close()


async def records_at(log: Log, partition: int, offsets: Sequence[int]) -> list[LogRecord]:
    """The records at these offsets, ascending.

    Raises:
        As `Reader.fetch`.
    """
    found: list[LogRecord] = []
    wanted = set(offsets)
    begin = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or offsets[at] - offsets[at - 1] > _NEAR_OFFSETS:
            async for records in records_between(log, partition, offsets[begin], offsets[at - 1] + 1):
                found += [each for each in records if each[0] in wanted]
            begin = at
    return found
