"""Counts keys with a time to live for INFO, from the expiry index, in pieces.

A hash that is listed for its soonest field counts when it has a time to live of its own too, as its metadata says;
while a field of it is due, not before a sweep has come by. Hashes are counted beside it whose next to die is a field:
one that dies as a whole before its first field does is not among them, as its entry is that of any key.

A pass over an index of up to 10,000 entries is made at once, so the figure is exact. A longer pass goes on with each
time that somebody asks; until it is over, the figures are those of the one before. What is due by the partition's clock
does not count, and while no event comes nothing is counted again.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.layouts.layout import Kind
from engine.store.store import EXPIRY_CF
from engine.tables.expiry_index import parse_entry
from engine.values.encoding import pack_u64

if TYPE_CHECKING:
    from engine.layouts.layout import Layout
    from resp.writes.write_pipeline import WritePipeline

_ENTRIES_A_STEP: Final = 10_000


class Expiring(NamedTuple):
    """The keys of one database with a time to live: their number, and the sum of their expire times.

    Attributes:
        hashes: of which a field dies next.
    """

    keys: int = 0
    sum_expire_ms: int = 0
    hashes: int = 0

    def __add__(self, other: Expiring) -> Expiring:  # type: ignore[override]
        keys, sum_expire_ms, hashes = map(add, self, other)
        return Expiring(keys, sum_expire_ms, hashes)

    def mean_left_ms(self, now_ms: int) -> int:
        """How long they have left on average, 0 when there are none."""
        return max(0, self.sum_expire_ms // self.keys - now_ms) if self.keys else 0


class _Pass:
    """The count of one partition, by stored database."""

    def __init__(self) -> None:
        self._at = b""
        self._counting: dict[int, Expiring] = {}
        self._counted: dict[int, Expiring] | None = None
        self._begun_offset = self._counted_offset = -1

    def step(self, pipeline: WritePipeline) -> dict[int, Expiring]:
        """Count on, and give the newest whole count, or what was counted so far before there is one."""
        position = pipeline.machine.position
        if self._counted is not None and self._counted_offset == position.next_offset:
            return self._counted
        if not self._at:
            self._begun_offset = position.next_offset
        layout = pipeline.machine.layout
        start = max(self._at, pack_u64(position.clock_ms + 1))  # no tombstone behind the clock is crossed again
        scan = pipeline.owned.worker.store.scan(EXPIRY_CF, start, None)
        get = pipeline.owned.worker.store.getter(layout.families[Kind.METADATA])
        for at, (entry, content) in enumerate(scan):
            if at == _ENTRIES_A_STEP:
                self._at = entry
                return self._counting if self._counted is None else self._counted
            place, key = parse_entry(entry, content)
            expire_ms = place if place > 0 else _own_expire_ms(layout, get(key))
            db, _, _ = layout.parse_metadata_key(key)
            found = Expiring(int(expire_ms > 0), expire_ms, int(place < 0))
            self._counting[db] = self._counting.get(db, Expiring()) + found
        self._counted, self._counting, self._at = self._counting, {}, b""
        self._counted_offset = self._begun_offset
        return self._counted


def _own_expire_ms(layout: Layout, stored: bytes | None) -> int:
    """When a hash dies by its own time to live, 0 for never."""
    times = None if stored is None else layout.parse_metadata(stored).times
    return 0 if times is None else times.own_expire_ms


class Census:
    """The counts of all partitions."""

    def __init__(self) -> None:
        self._passes: dict[int, _Pass] = {}

    def of(self, pipeline: WritePipeline) -> dict[int, Expiring]:
        """The counts of an open partition by logical database."""
        with pipeline.owned.reading():
            counted = self._passes.setdefault(pipeline.partition, _Pass()).step(pipeline)
        logical = {stored: db for db, stored in enumerate(pipeline.machine.position.stored_dbs)}
        return {logical[stored]: expiring for stored, expiring in counted.items()}
