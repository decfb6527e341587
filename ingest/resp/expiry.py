"""Keys that die while nobody writes: the clock of an idle partition is moved, and who listens to `expired` is told.

Reads alone: the keys' records are the cleaner's. The expiry index is ordered by time, so both look at one place of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.encoding import pack_u64
from engine.layouts import LAYOUTS
from engine.store.base import EXPIRY_CF

if TYPE_CHECKING:
    from ingest.resp.lane import Lane
    from ingest.resp.notifications import Notifications
    from ingest.resp.stats import Stats

_ROUND_KEYS_MAX: Final = 1000
_TICK_MS: Final = 1000
_TIME_BYTES: Final = 8


class Expiry:
    """The keys of one lane that die, in order of time."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._layout = LAYOUTS[lane.seat.worker.home.layout](lane.partition)
        self._cursor = b""
        self._looked_ms = 0
        self._looked_offset = -1

    def walk(self, wall_ms: int, notifications: Notifications, stats: Stats) -> None:
        """Go on to the partition's clock; once a second look for keys that are due behind it, and append a TICK."""
        lane = self._lane
        clock_ms = lane.machine.position.clock_ms
        self._cursor = self._cursor or pack_u64(clock_ms + 1)  # what died before this server came is no news
        self._report(pack_u64(clock_ms + 1), notifications, stats)
        # Either way: a wall clock that was set back must not stop this.
        if abs(wall_ms - self._looked_ms) >= _TICK_MS and self._is_any_due(clock_ms, wall_ms):
            lane.tick()

    def _report(self, end: bytes, notifications: Notifications, stats: Stats) -> None:
        """Count the keys that died before `end`, and tell of them; of many at once, the rest in the next rounds."""
        if self._cursor >= end:
            return
        logical = {stored: db for db, stored in enumerate(self._lane.machine.position.stored_dbs)}
        scan = self._lane.seat.worker.store.scan(EXPIRY_CF, self._cursor, end)
        self._cursor = end
        for count, (entry, _) in enumerate(scan):
            if count == _ROUND_KEYS_MAX:
                self._cursor = entry
                return
            stored, _, name = self._layout.parse_metadata_key(entry[_TIME_BYTES:])
            stats.expired_keys += 1
            notifications.expired_keys(logical[stored], name)

    def _is_any_due(self, clock_ms: int, wall_ms: int) -> bool:
        """Whether a key dies behind the clock, up to `wall_ms`.

        While no event comes the index stays as it is: what was looked through before, with whatever tombstones there
        are, is not looked through again.
        """
        offset = self._lane.machine.position.next_offset
        start_ms = max(clock_ms, self._looked_ms) if offset == self._looked_offset else clock_ms
        scan = self._lane.seat.worker.store.scan(EXPIRY_CF, pack_u64(start_ms + 1), pack_u64(wall_ms + 1))
        is_due = next(scan, None) is not None
        self._looked_ms = wall_ms
        self._looked_offset = -1 if is_due else offset
        return is_due
