"""The only wall clock. It stamps records; applying a record uses the record's time.

A wall clock can be set: by hand, by NTP, in a machine that was asleep. One that leaps ahead for a moment would kill
every key with a time to live, for good. So it is held against the clock since the machine's boot, which nobody sets and
which goes on while the machine sleeps: `WallClock`. A drift that NTP slews away is slow, so the two are compared over
the last hour: a leap, or small steps that add up within an hour, are found, and years of slewing are not.

One that was ahead before the process began is found where a broker gives records their times: a record cannot be older
than its sending. Reads would take for dead what lives by the log; so they go by the broker's time then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from slotlog.errors import TimeAheadError, WallClockMovedError
from slotlog.shared.limits import TIME_MS_MAX

_MILLISECOND: Final = 1_000_000
_WINDOW_MS: Final = 3_600_000
_MARK_MS: Final = 60_000
_FRESH_MS: Final = 1000
_SLEW: Final = 2000
"""NTP slews a clock by at most 500 parts per million: one millisecond in so many."""

_STEP_BACK_MS_MAX: Final = 10_000
_TORN_MS: Final = 100
"""Between two looks at the boot clock lies the one at the wall clock; when that took longer, it is taken again."""

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _boot_ns() -> int:
    return time.clock_gettime_ns(_BOOT_CLOCK)


class WallClock:
    """The machine's wall clock; after a leap, the time that it would have shown without.

    For any thread.

    Args:
        wall_ns, boot_ns: the two clocks.

    Attributes:
        wall_ns, boot_ns: as above.
        move_max_ms: how far it may move against the boot clock within an hour.
        ahead_max_ms: how far the time of a record may lie ahead of it.
        fresh_from_ms, fresh_to_ms: what the machine's clock shows between these two needs no second look: no leap is
            that short. Measured: 0.1 us instead of 0.5.
        lead_ms: how far it is ahead of the clock that gives records their times; 0: by no more than a record may be.
    """

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, boot_ns: Callable[[], int] = _boot_ns) -> None:
        self.wall_ns = wall_ns
        self.boot_ns = boot_ns
        self.move_max_ms = 60_000
        self.ahead_max_ms = 60_000
        self._lock = threading.Lock()
        self._marks: deque[tuple[int, int]] = deque()  # (boot clock, wall clock less boot clock), one a minute
        self._moved_ms = 0
        self.lead_ms = 0
        self.fresh_from_ms, self.fresh_to_ms = 1, 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; while the machine's clock is moved, as it would be without that.

        And without its lead over the log's.
        """
        wall_ms = self.wall_ns() // _MILLISECOND
        if self.fresh_from_ms <= wall_ms <= self.fresh_to_ms:
            return wall_ms
        with self._lock:
            return self._look()

    def stamp_ms(self) -> int:
        """`now_ms`, for what goes into a log.

        Raises:
            WallClockMovedError: the machine's clock is moved.
        """
        now_ms = self.now_ms()
        if self._moved_ms:
            raise WallClockMovedError(self._moved_ms, self.move_max_ms)
        return now_ms

    def moved_ms(self) -> int:
        """How far the machine's clock is moved, ahead or (below zero) back; 0: by no more than it may be."""
        self.now_ms()
        return self._moved_ms

    def trouble(self) -> str:
        """Why nothing is stamped now; empty while the machine's clock is right."""
        moved_ms = self.moved_ms()
        return str(WallClockMovedError(moved_ms, self.move_max_ms)) if moved_ms else ""

    def local_ms(self) -> int:
        """`now_ms` by this machine alone: with its lead over the log's clock."""
        return self.now_ms() + self.lead_ms

    def compare(self, sent_ms: int, record_ms: int) -> None:
        """Hold it against a broker's clock.

        Args:
            sent_ms: `local_ms` before a record was sent.
            record_ms: the time that the broker gave it, later on.
        """
        lead_ms = sent_ms - record_ms
        if lead_ms <= self.ahead_max_ms:
            lead_ms = 0
        if lead_ms or self.lead_ms:
            with self._lock:
                self.lead_ms = lead_ms
                self.fresh_from_ms, self.fresh_to_ms = 1, 0

    def mark(self) -> tuple[int, int]:
        """The newest moment at which it was right: boot clock, and wall clock less boot clock, in ms."""
        self.now_ms()
        with self._lock:
            return self._marks[-1]

    def expect(self, mark: tuple[int, int]) -> None:
        """Go on from a `mark` that an earlier process of this boot has left."""
        with self._lock:
            self._marks.clear()
            self._marks.append(mark)
            self._look()

    def agree(self) -> None:
        """What the machine's clock shows is right: an operator says so."""
        with self._lock:
            self._marks.clear()
            self._look()

    def refuse_ahead(self, time_ms: int) -> None:
        """Refuse a time that an event is to have.

        Raises:
            ValueError: no log takes it. TimeAheadError: it lies further ahead of this clock than it may.
        """
        if not 0 <= time_ms <= TIME_MS_MAX:
            raise ValueError(f"time {time_ms} is outside 0 … {TIME_MS_MAX} ms")
        ahead_ms = time_ms - self.now_ms()
        if ahead_ms > self.ahead_max_ms:
            raise TimeAheadError(time_ms, ahead_ms, self.ahead_max_ms)

    def _look(self) -> int:
        """Compare the two clocks. Returns the time."""
        boot_ms, wall_ms = self._read()
        offset = wall_ms - boot_ms
        marks = self._marks
        if not marks:
            marks.append((boot_ms, offset))
        newest_ms, newest = marks[-1]
        allowed = self.move_max_ms + (boot_ms - newest_ms) // _SLEW
        moved = max((offset - marked for _, marked in marks), key=abs)
        if abs(moved) > allowed:
            self._moved_ms = moved
            self.fresh_from_ms, self.fresh_to_ms = 1, 0
            return boot_ms + newest - self.lead_ms
        self._moved_ms = 0
        if boot_ms - newest_ms >= _MARK_MS:
            marks.append((boot_ms, offset))
            while marks[0][0] < boot_ms - _WINDOW_MS:
                marks.popleft()
        if self.lead_ms:
            return wall_ms - self.lead_ms
        self.fresh_from_ms, self.fresh_to_ms = wall_ms, wall_ms + _FRESH_MS
        return wall_ms

    def _read(self) -> tuple[int, int]:
        """Both clocks at one moment, even when the process is held up meanwhile."""
        while True:
            before_ms = self.boot_ns() // _MILLISECOND
            wall_ms = self.wall_ns() // _MILLISECOND
            if self.boot_ns() // _MILLISECOND - before_ms <= _TORN_MS:
                return before_ms, wall_ms


WALL: Final = WallClock()
"""That of this process."""

now_ms: Final = WALL.now_ms
stamp_ms: Final = WALL.stamp_ms


class ReadClock:
    """The wall clock as reads see it. It stands still while the machine's steps back a little.

    So what a read has shown as expired does not come back to life for the next one. A step of ten seconds or more is
    followed: then the clock was wrong before.
    """

    def __init__(self) -> None:
        self.latest_ms = now_ms()

    def now_ms(self) -> int:
        """Look at the clock. Each turn of a client does: with `WALL.now_ms` called only when it must be, 40 % less."""
        wall_ms = WALL.wall_ns() // _MILLISECOND
        if not WALL.fresh_from_ms <= wall_ms <= WALL.fresh_to_ms:
            wall_ms = WALL.now_ms()
        if not 0 < self.latest_ms - wall_ms < _STEP_BACK_MS_MAX:
            self.latest_ms = wall_ms
        return self.latest_ms


def now_ns() -> int:
    """Nanoseconds since 1970-01-01 UTC, as the machine's clock has it: for clients and traces, that judge nothing."""
    return time.time_ns()


def now_us() -> int:
    """Microseconds since 1970-01-01 UTC, of the same clock."""
    return time.time_ns() // 1_000
