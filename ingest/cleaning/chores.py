"""Decides what to clean next in one partition, and how much fits into a slice of the event loop's time.

These questions are asked several times a second, so they cost nothing where a partition is idle: whether its store is
looked at follows from its position alone, as nothing dies without an event.
"""

from __future__ import annotations

from typing import Final

from engine.apply.machine import Machine
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.store.store import MaintainedStore

_KEY_SECONDS: Final = 50e-6
_RECORD_SECONDS: Final = 10e-6
_NEWEST_WEIGHT: Final = 0.3


class Pace:
    """The duration of a unit of work, learnt from the last slices.

    Args:
        unit_seconds: what a unit is thought to take before any was measured; rather too much.
    """

    __slots__ = ("_unit_seconds",)

    def __init__(self, unit_seconds: float) -> None:
        self._unit_seconds = unit_seconds

    def units(self, seconds: float) -> int:
        """How many units fit into `seconds`; at least one."""
        return max(1, int(seconds / self._unit_seconds))

    def note(self, units: int, seconds: float) -> None:
        """Learn that so many units, at least one, took so long."""
        self._unit_seconds += _NEWEST_WEIGHT * (seconds / units - self._unit_seconds)


class Chore:
    """One kind of cleaning in one partition.

    Attributes:
        pace: of its work.
        is_behind: the last slice has left something that can be done at once.
    """

    __slots__ = ("_looked_offset", "_next_at", "is_behind", "pace")

    def __init__(self, unit_seconds: float) -> None:
        self.pace = Pace(unit_seconds)
        self.is_behind = False
        self._looked_offset = -1
        self._next_at = 0.0

    def is_wanted(self, next_offset: int, now: float) -> bool:
        """Whether there may be something to do in a partition that stands at `next_offset`."""
        return self.is_behind or (next_offset != self._looked_offset and now >= self._next_at)

    def done(self, next_offset: int, next_at: float, *, is_behind: bool) -> None:
        """Note that a slice is done. Unless it is behind, the next is due at `next_at` on the monotonic clock."""
        self._looked_offset = next_offset
        self._next_at = next_at
        self.is_behind = is_behind

    def look_again(self) -> None:
        """Note that there may be work, although no event came."""
        self._looked_offset = -1
        self._next_at = 0.0


class CleaningJob:
    """The cleaning of one partition, from the opening of its store to its closing.

    Attributes:
        machine, store: as they were opened.
        sweeper, reclaimer: that do it.
        expiry, graves, windows: its chores; the last is what `Sweeper.forget` does.
        late_ms: since when, by the log's time, the first of what is left to expire is due; 0: nothing is.
        graves_next: it is the graves' turn, if both have something to do.
        not_before: its store was busy: to be left alone so long, on the monotonic clock.
        may_have_ranges: some may wait for their compaction, beside those whose notes the machine names: look.
        ranges_waiting: how many there were at the last look.
        is_flushed: since the disk is full, all that was deleted has been written to files, where RocksDB compacts it.
        compact_at: a compaction or flush failed: none before this, on the monotonic clock.
        compactions: how many were begun: each time it is another range's turn.
    """

    __slots__ = (
        "compact_at", "compactions", "expiry", "graves", "graves_next", "is_flushed", "late_ms", "machine",
        "may_have_ranges", "not_before", "ranges_waiting", "reclaimer", "store", "sweeper", "windows",
    )  # fmt: skip

    def __init__(self, machine: Machine, store: MaintainedStore) -> None:
        self.machine = machine
        self.store = store
        self.sweeper = Sweeper(machine, store)
        self.reclaimer = Reclaimer(machine, store)
        self.expiry = Chore(_KEY_SECONDS)
        self.graves = Chore(_RECORD_SECONDS)
        self.windows = Chore(_KEY_SECONDS)
        self.late_ms = 0
        self.graves_next = False
        self.not_before = 0.0
        self.may_have_ranges = True
        self.is_flushed = False
        self.ranges_waiting = 0
        self.compact_at = 0.0
        self.compactions = 0

    @property
    def is_behind(self) -> bool:
        """Whether something that is due or dead is left, as far as was looked."""
        return self.expiry.is_behind or self.graves.is_behind or self.windows.is_behind

    def is_wanted(self, now: float) -> bool:
        """Whether there may be something to do."""
        offset = self.machine.next_offset
        return now >= self.not_before and any(
            chore.is_wanted(offset, now) for chore in (self.expiry, self.graves, self.windows)
        )


class Allowance:
    """An amount a second, with up to one second's amount saved. More may be taken, and is then owed.

    Args:
        per_second: 0: no limit.
        now: on the monotonic clock.
    """

    __slots__ = ("_at", "_left", "_per_second")

    def __init__(self, per_second: int, now: float) -> None:
        self._per_second = per_second
        self._left = float(per_second)
        self._at = now

    def has_any(self, now: float) -> bool:
        """Whether anything may be taken."""
        if not self._per_second:
            return True
        self._left = min(self._per_second, self._left + (now - self._at) * self._per_second)
        self._at = now
        return self._left > 0

    def take(self, number: int) -> None:
        """Take an amount, even if it is not there: it is owed then."""
        self._left -= number
