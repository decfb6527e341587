"""The records that decide what some keys hold: those that touch them, and those that touch what these touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from ingest.applying.batches.decoding import decode_batch
from ops.config import Settings
from ops.past.offsets.footprint import footprint_of, token_of
from ops.past.offsets.index_file import DamagedPageError
from ops.past.offsets.offset_index import OffsetIndex, indexed
from ops.state.log_records import records_at

if TYPE_CHECKING:
    from slotlog.log import Log, LogRecord

logger = structlog.get_logger(__name__)

RECORDS_MAX: Final = 20_000
_BYTES_MAX: Final = 16 * 1024 * 1024


class Relevant(NamedTuple):
    """Some records of a partition.

    Attributes:
        records: in order.
        clock_ms: the latest time of all records of the log before the end.
    """

    records: list[LogRecord]
    clock_ms: int


async def relevant(
    settings: Settings, log: Log, partition: int, keys: Sequence[bytes], end: int, unread_max: int
) -> Relevant | None:
    """The records before `end` that decide what `keys` hold, in a log that begins at offset 0.

    A machine that applies them alone has the same outcome of each, and the same content of these keys, as one that
    applies all. None: too many of them, or nobody knows which without a look at more than `unread_max` others.

    Raises:
        OSError: the index cannot be written. Others: as `Reader.fetch`.
    """
    while True:
        try:
            async with indexed(settings, log, partition, end, unread_max) as index:
                return None if index is None or not index.is_exact else await _found(index, log, partition, keys)
        except DamagedPageError:  # it is made anew, unless that takes too long
            logger.warning("index_damaged", partition=partition, hint="the offsets from there on are read again")


async def _found(index: OffsetIndex, log: Log, partition: int, keys: Sequence[bytes]) -> Relevant | None:
    found: dict[int, LogRecord] = {}
    new = {token_of(key) for key in keys}
    seen = set(new)
    offsets = set(index.offsets_everywhere())
    size = 0
    while new or offsets:
        offsets.update(index.offsets(sorted(new)))
        offsets -= found.keys()
        if len(found) + len(offsets) > RECORDS_MAX:
            return None
        records = await records_at(log, partition, sorted(offsets))
        size += sum(len(record[3] or b"") for record in records)
        if size > _BYTES_MAX:
            return None
        found.update((record[0], record) for record in records)
        new = {token for event in decode_batch(records) for token in footprint_of(event).tokens} - seen
        seen |= new
        offsets = set()
    return Relevant([found[offset] for offset in sorted(found)], index.clock_ms)
