"""The index of one partition's offsets: built from the log as far as it is needed, and kept."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ingest.applying.decoding import decode_batch
from ops.config import Settings
from ops.past.offsets.footprint import footprint_of
from ops.past.offsets.index_file import BLOCK_OFFSETS, Block, Content, DamagedPageError, IndexFile, block_at, packed
from ops.past.offsets.reading import records_between
from ops.progress import progress

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

_DIRECTORY: Final = "offsets"
"""In the data directory: a file for each partition."""

_TOKEN: Final = itemgetter(0)


class OffsetIndex:
    """The blocks of a partition's offsets from 0 to before an end; the last one is not on the disk.

    Args:
        blocks: in order; those on the disk can be looked at until the file is closed.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks

    @property
    def is_exact(self) -> bool:
        """Whether the events that share no number are known not to matter to each other."""
        return not any(block.opaque or block.went_back for block in self._blocks)

    @property
    def clock_ms(self) -> int:
        """The latest time of a record."""
        return self._blocks[-1].clock_ms if self._blocks else 0

    def offsets(self, tokens: Sequence[int]) -> Iterator[int]:
        """Of the events with any of these numbers."""
        for block in self._blocks:
            yield from block.offsets(tokens)

    def offsets_everywhere(self) -> Iterator[int]:
        """Of the events that reach everywhere."""
        for block in self._blocks:
            yield from block.offsets_everywhere()


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
    whole = end - end % BLOCK_OFFSETS
    file = IndexFile(settings.data / _DIRECTORY / str(partition)) if whole else None
    try:
        blocks = [] if file is None else await _extended(file, log, partition, end, unread_max)
        if blocks is None:
            yield None
            return
        if whole < end:
            data = packed(await _content(log, partition, whole, end, blocks[-1].clock_ms if blocks else 0))
            last = block_at(lambda at, size: data[at : at + size], 0, len(data))
            assert last is not None
            blocks.append(last)
        yield OffsetIndex(blocks)
    except DamagedPageError as error:
        if file is not None:
            file.clear(error.begin)
        raise
    finally:
        if file is not None:
            file.close()


async def _extended(file: IndexFile, log: Log, partition: int, end: int, unread_max: int) -> list[Block] | None:
    """The blocks of the file that end at `end` or before, with those that were missing; None: as `indexed`."""
    if file.blocks and not await _is_of(log, partition, file.blocks[-1]):
        file.clear()
    begin = file.blocks[-1].end if file.blocks else 0
    if end - begin > unread_max:
        return None
    missing = range(begin, end - end % BLOCK_OFFSETS, BLOCK_OFFSETS)
    with progress("index", len(missing) * BLOCK_OFFSETS, "offsets") as advance:
        for start in missing:
            clock_ms = file.blocks[-1].clock_ms if file.blocks else 0
            file.append(await _content(log, partition, start, start + BLOCK_OFFSETS, clock_ms))
            advance(start + BLOCK_OFFSETS - begin)
    return [block for block in file.blocks if block.end <= end]


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


async def _content(log: Log, partition: int, begin: int, end: int, clock_ms: int) -> Content:
    """Made of the log. `clock_ms` is the latest time before `begin`."""
    pairs: list[tuple[int, int]] = []
    everywhere = array("H")
    opaque = went_back = False
    last: LogRecord | None = None
    async for records in records_between(log, partition, begin, end):
        for event in decode_batch(records):
            tokens, reaches, is_opaque = footprint_of(event)
            place, time_ms = event[0] - begin, event[1]
            pairs += [(token, place) for token in tokens]
            if reaches:
                everywhere.append(place)
            opaque |= is_opaque
            went_back |= time_ms < clock_ms
            clock_ms = max(clock_ms, time_ms)
        last = records[-1] if records else last
    pairs.sort(key=_TOKEN)
    return Content(
        *(begin, end, clock_ms),
        *(array("I", _column(pairs, 0)), array("H", _column(pairs, 1)), everywhere),
        *(opaque, went_back),
        *(_mark_of(last) if last is not None else (0, 0)),
    )


def _column(pairs: Sequence[tuple[int, int]], at: int) -> Iterable[int]:
    return (pair[at] for pair in pairs)
