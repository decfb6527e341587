"""The index of one partition's offsets: built from the log as far as it is needed, and kept."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ingest.applying.batches.decoding import decode_batch
from ops.config import Settings
from ops.past.offsets.footprint import footprint_of
from ops.past.offsets.index_file import BLOCK_OFFSETS, Block, Content, DamagedPageError, IndexFile, block_at, packed
from ops.progress import progress
from ops.state.log_records import records_between

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

_DIRECTORY: Final = "offsets"
"""In the data directory: a file for each partition."""

_KEPT_MIN: Final = 1024
"""Fewer new offsets are read at each look: to write them takes longer."""

_MARKERS_MAX: Final = 64
"""So many offsets without a record, markers of transactions, seldom stand side by side."""

_TOKEN: Final = itemgetter(0)


class OffsetIndex:
    """The blocks of a partition's offsets from 0 to before an end.

    Args:
        blocks: in order; those on the disk can be looked at until the file is closed. The last one may reach further.
        end: the end.
        clock_ms: the latest time of a record before it.
    """

    def __init__(self, blocks: Sequence[Block], end: int, clock_ms: int) -> None:
        self._blocks, self._end = blocks, end
        self.clock_ms = clock_ms

    @property
    def is_exact(self) -> bool:
        """Whether the events that share no number are known not to matter to each other."""
        return not any(block.opaque or block.went_back for block in self._blocks)

    def offsets(self, tokens: Sequence[int]) -> Iterator[int]:
        """Of the events with any of these numbers."""
        for block in self._blocks:
            yield from (offset for offset in block.offsets(tokens) if offset < self._end)

    def offsets_everywhere(self) -> Iterator[int]:
        """Of the events that reach everywhere."""
        for block in self._blocks:
            yield from (offset for offset in block.offsets_everywhere() if offset < self._end)


@asynccontextmanager
async def indexed(
    settings: Settings, log: Log, partition: int, end: int, unread_max: int
) -> AsyncIterator[OffsetIndex | None]:
    """The index of a partition whose log begins at offset 0, up to `end`. What is missing on the disk is added.

    None: more than `unread_max` offsets would have to be read for it. A damaged page that is met is forgotten, with all
    that follows.

    Raises:
        OSError: the file cannot be written. DamagedPageError: one was met. Others: as `Reader.fetch`.
    """
    file = IndexFile(settings.data / _DIRECTORY / str(partition)) if end >= _KEPT_MIN else None
    try:
        blocks: list[Block] | None = []
        if file is not None:
            blocks = await _extended(file, log, partition, end, unread_max)
        yield None if blocks is None else await _up_to(blocks, log, partition, end)
    except DamagedPageError as error:
        if file is not None:
            file.clear(error.begin)
        raise
    finally:
        if file is not None:
            file.close()


async def _extended(file: IndexFile, log: Log, partition: int, end: int, unread_max: int) -> list[Block] | None:
    """The blocks of the file that begin before `end`, with those that were missing; None: as `indexed`."""
    if file.blocks and not await _is_of(log, partition, file.blocks[-1]):
        file.clear()
    begin = file.blocks[-1].end if file.blocks else 0
    if end - begin > unread_max:
        return None
    if end - begin >= _KEPT_MIN:
        with progress("index", end - begin, "offsets") as advance:
            for start in range(begin - begin % BLOCK_OFFSETS, end, BLOCK_OFFSETS):
                file.append(await _next(file, log, partition, start, min(start + BLOCK_OFFSETS, end)))
                advance(file.blocks[-1].end - begin)
    return [block for block in file.blocks if block.begin < end]


async def _next(file: IndexFile, log: Log, partition: int, begin: int, end: int) -> Content:
    """The block from `begin` on; the file's last one becomes a part of it, if it begins there."""
    if not file.blocks or file.blocks[-1].begin < begin:
        return await _content(log, partition, begin, begin, end, file.blocks[-1].clock_ms if file.blocks else 0)
    first = file.blocks[-1].content()
    rest = await _content(log, partition, begin, first.end, end, first.clock_ms)
    file.clear(begin)
    pairs = sorted(zip(chain(first.tokens, rest.tokens), chain(first.places, rest.places), strict=True), key=_TOKEN)
    return rest._replace(
        tokens=array("I", _column(pairs, 0)),
        places=array("H", _column(pairs, 1)),
        everywhere=first.everywhere + rest.everywhere,
        opaque=first.opaque or rest.opaque,
        went_back=first.went_back or rest.went_back,
    )


async def _up_to(blocks: list[Block], log: Log, partition: int, end: int) -> OffsetIndex:
    """The index of just the offsets before `end`."""
    last = blocks[-1] if blocks else None
    if last is not None and last.end > end and not (last.opaque or last.went_back):
        before_ms = blocks[-2].clock_ms if len(blocks) > 1 else 0
        return OffsetIndex(blocks, end, max(before_ms, await _last_time(log, partition, last.begin, end)))
    if last is not None and last.end > end:  # what nobody knows may stand behind the end
        blocks.pop()
    begin = blocks[-1].end if blocks else 0
    if begin < end:
        clock_ms = blocks[-1].clock_ms if blocks else 0
        data = packed(await _content(log, partition, begin, begin, end, clock_ms))
        rest = block_at(lambda at, size: data[at : at + size], 0, len(data))
        assert rest is not None
        blocks.append(rest)
    return OffsetIndex(blocks, end, blocks[-1].clock_ms if blocks else 0)


async def _last_time(log: Log, partition: int, begin: int, end: int) -> int:
    """The time of the last record from `begin` to before `end`; 0: there is none."""
    for start in (max(begin, end - _MARKERS_MAX), begin):
        times = [record[1] async for records in records_between(log, partition, start, end) for record in records]
        if times:
            return times[-1]
    return 0


async def _is_of(log: Log, partition: int, last: Block) -> bool:
    """Whether the log has the record that the last block ends with: else it is another one, or was cut short."""
    if await log.end_offset(partition) < last.end:
        return False
    async for records in records_between(log, partition, last.end - 1, last.end):
        for record in records:
            return _mark_of(record) == (last.last_time_ms, last.last_crc)
    return False  # a marker of a transaction stood there: nobody knows


def _mark_of(record: LogRecord) -> tuple[int, int]:
    return record[1], crc32(record[3] or b"")


async def _content(log: Log, partition: int, base: int, begin: int, end: int, clock_ms: int) -> Content:
    """Of a block that begins at `base`, what stands from `begin` on. `clock_ms` is the latest time before that."""
    pairs: list[tuple[int, int]] = []
    everywhere = array("H")
    opaque = went_back = False
    last: LogRecord | None = None
    async for records in records_between(log, partition, begin, end):
        for event in decode_batch(records):
            tokens, reaches, is_opaque = footprint_of(event)
            place, time_ms = event[0] - base, event[1]
            pairs += [(token, place) for token in tokens]
            if reaches:
                everywhere.append(place)
            opaque |= is_opaque
            went_back |= time_ms < clock_ms
            clock_ms = max(clock_ms, time_ms)
        last = records[-1] if records else last
    pairs.sort(key=_TOKEN)
    return Content(
        *(base, end, clock_ms),
        *(array("I", _column(pairs, 0)), array("H", _column(pairs, 1)), everywhere),
        *(opaque, went_back),
        *(_mark_of(last) if last is not None else (0, 0)),
    )


def _column(pairs: Sequence[tuple[int, int]], at: int) -> Iterable[int]:
    return (pair[at] for pair in pairs)


async def extend(settings: Settings, log: Log, partition: int, offsets_max: int) -> int:
    """Add up to so many of the offsets that are missing in the file, and are whole blocks. How many are still missing.

    Nothing is done for a log that does not begin at offset 0.

    Raises:
        OSError: the file cannot be written. Others: as `Reader.fetch`.
    """
    if await log.begin_offset(partition):
        return 0
    end = await log.end_offset(partition)
    end -= end % BLOCK_OFFSETS
    file = IndexFile(settings.data / _DIRECTORY / str(partition))
    try:
        begin = file.blocks[-1].end if file.blocks else 0
        to = min(end, begin - begin % BLOCK_OFFSETS + max(BLOCK_OFFSETS, offsets_max))
        if begin < to:
            await _extended(file, log, partition, to, to)
        return max(0, end - (file.blocks[-1].end if file.blocks else 0))
    finally:
        file.close()
