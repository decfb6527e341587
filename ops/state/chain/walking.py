"""Computes heads of the hash chain from the log."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state.chain.kept_heads import HEAD_OFFSETS, Head, KeptHeads
from ops.state.log_records import records_between
from slotlog.log.hash_chain import first_head, head_behind

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

logger = structlog.get_logger(__name__)


class Chain:
    """The chain of a partition, computed along the log.

    Args:
        start: where it begins.
        offsets: those whose heads are wanted, ascending.
        noted: by offset, what the head has to be. Behind one that differs the chain goes on from what was noted.
    """

    def __init__(self, start: Head, offsets: Iterable[int], noted: Mapping[int, bytes] = MappingProxyType({})) -> None:
        self.head = start.head
        self._left = deque(offsets)
        self._noted = noted

    def take(self, records: Sequence[LogRecord]) -> Iterator[Head]:
        """The heads at those of the offsets that these records reach."""
        at = 0
        while records and self._left and records[-1][0] >= self._left[0]:
            behind = bisect_left(records, (self._left[0],), at)
            self.head = head_behind(self.head, records[at:behind])
            at = behind
            yield self._next()
        self.head = head_behind(self.head, records[at:])

    def end(self) -> Iterator[Head]:
        """The heads at the offsets that are left, when all records before them were taken."""
        while self._left:
            yield self._next()

    def _next(self) -> Head:
        offset, head = self._left.popleft(), self.head
        self.head = self._noted.get(offset, head)
        return Head(offset, head)


HeadsElsewhere = Callable[[int], Iterable[Head]]
"""Gives heads of a partition that do not stand in the data directory: those in the manifests of snapshots."""


def marks(begin: int, end: int) -> range:
    """The offsets behind `begin` whose heads are kept, up to `end`."""
    return range(begin - begin % HEAD_OFFSETS + HEAD_OFFSETS, end + 1, HEAD_OFFSETS)


async def head_at(
    settings: Settings, log: Log, partition: int, offset: int, others: HeadsElsewhere, *, keep: bool
) -> bytes:
    """The head at an offset, from the nearest one that the data directory keeps.

    Args:
        settings: the data directory.
        log: it.
        partition: one of the topic's.
        offset: any up to the log's end.
        others: asked for heads that stand elsewhere, where the log does not have its first records any more, and the
            data directory no head from there on.
        keep: keep this head, and those on the way, in the data directory.

    Raises:
        ConfigError: the log does not have its first records any more, and no head of them is known; or it has other
            records before the last head than when that was kept.
        OSError: the heads cannot be written. Others: as `Reader.fetch`.
    """
    begin, end = await log.begin_offset(partition), await log.end_offset(partition)
    if offset > end:
        raise ConfigError(f"the log of partition {partition} ends at offset {end}, before {offset}")
    with KeptHeads(settings.data, partition, keep=keep) as kept:
        if kept.trouble:
            logger.warning("chain_heads_lost", reason=kept.trouble)
        known = [Head(0, first_head(partition)), *kept.until(offset)]
        if known[-1].offset < begin:
            known += sorted(each for each in others(partition) if begin <= each.offset <= offset)
        if known[-1].offset < begin:
            raise ConfigError(
                f"the log of partition {partition} begins at offset {begin}, and no head of its chain from there to"
                f" offset {offset} is known, in {settings.data} or in a snapshot"
            )
        # From the one before the last: the records between the two say whether this is still the same log.
        start = next(each for each in known[-2:] if each.offset >= begin)
        expected = dict(known[-2:])
        wanted = sorted({*marks(start.offset, offset), *(each for each in expected if each > start.offset)})
        found: list[Head] = []
        chain = Chain(start, wanted)
        with progress("chain", offset - start.offset, "offsets") as advance:
            async for records in records_between(log, partition, start.offset, offset):
                found += chain.take(records)
                if records:
                    advance(records[-1][0] + 1 - start.offset)
            found += chain.end()
        wrong = next((each.offset for each in found if expected.get(each.offset, each.head) != each.head), None)
        if wrong is not None:
            raise ConfigError(
                f"the log of partition {partition} has other records from offset {start.offset} to before {wrong}"
                " than when the head of its chain was kept: `slotlog chain --check` says which"
            )
        if keep:
            kept.add([*found, Head(offset, chain.head)])
        return chain.head
