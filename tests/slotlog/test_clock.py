"""The wall clock held against the clock since boot: leaps are found, slewing is not."""

from __future__ import annotations

import pytest

from slotlog.clock import WallClock
from slotlog.errors import TimeAheadError, WallClockMovedError
from slotlog.shared.limits import TIME_MS_MAX

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
YEARS_MS = 10 * 365 * 24 * HOUR_MS
BEGIN_MS = 1_790_000_000_000


class Clocks:
    """A machine's two clocks, by hand, and the wall clock over them."""

    def __init__(self) -> None:
        self.boot_ms = 5000
        self.offset_ms = BEGIN_MS
        self.clock = WallClock(lambda: (self.boot_ms + self.offset_ms) * 1_000_000, lambda: self.boot_ms * 1_000_000)
        self.clock.now_ms()

    def run(self, ms: int, *, slew_ms: int = 0) -> None:
        """Let time pass, a second at a time for an hour, else at once, while the wall clock is slewed by so much."""
        steps = ms // 1000 if ms <= HOUR_MS else 1
        for step in range(steps):
            self.boot_ms += ms // steps
            self.offset_ms += slew_ms * (step + 1) // steps - slew_ms * step // steps
            self.clock.now_ms()


@pytest.mark.parametrize("leap_ms", [YEARS_MS, -YEARS_MS, 61_000, -61_000])
def test_after_a_leap_nothing_is_stamped_and_time_goes_on_as_before(leap_ms: int) -> None:
    """Neither ahead nor back is followed; the time that is judged by goes on as if the clock had not been moved."""
    clocks = Clocks()
    clocks.run(10_000)
    clocks.offset_ms += leap_ms

    assert leap_ms == clocks.clock.moved_ms()
    with pytest.raises(WallClockMovedError, match="slotlog clock agree"):
        clocks.clock.stamp_ms()
    clocks.run(30_000)
    assert BEGIN_MS + 45_000 == clocks.clock.now_ms()
    assert clocks.clock.trouble() != ""


def test_a_clock_ahead_of_the_brokers_goes_by_that() -> None:
    """While records get times that much before their sending; a broker that is ahead, or late, says nothing."""
    clocks = Clocks()
    clock = clocks.clock
    found = []
    for broker_ms in (-MINUTE_MS, -HOUR_MS, -HOUR_MS, HOUR_MS, -MINUTE_MS - 1, 0):
        local_ms = clock.local_ms()
        clock.compare(local_ms, local_ms + broker_ms)
        found.append((clock.lead_ms, clock.local_ms() - clock.now_ms(), clock.local_ms() == local_ms))

    assert [(lead_ms, lead_ms, True) for lead_ms in (0, HOUR_MS, HOUR_MS, 0, MINUTE_MS + 1, 0)] == found


def test_a_clock_ahead_of_the_brokers_that_leaps_is_both() -> None:
    """The leap is taken off as well."""
    clocks = Clocks()
    clocks.clock.compare(clocks.clock.local_ms(), BEGIN_MS - HOUR_MS + 5000)
    clocks.offset_ms += YEARS_MS

    assert (BEGIN_MS + 5000 - HOUR_MS, YEARS_MS) == (clocks.clock.now_ms(), clocks.clock.moved_ms())


def test_a_clock_that_is_set_back_to_what_it_was_is_right_again() -> None:
    """A leap of seconds, undone, needs nobody."""
    clocks = Clocks()
    clocks.offset_ms += YEARS_MS
    assert clocks.clock.moved_ms() == YEARS_MS
    clocks.boot_ms += 5000
    clocks.offset_ms -= YEARS_MS

    assert BEGIN_MS + 10_000 == clocks.clock.stamp_ms()
    assert (0, "") == (clocks.clock.moved_ms(), clocks.clock.trouble())


def test_an_operator_can_agree() -> None:
    """From then on the moved clock is the right one, and going back would be a leap."""
    clocks = Clocks()
    clocks.offset_ms += YEARS_MS
    assert clocks.clock.moved_ms() == YEARS_MS
    clocks.clock.agree()

    assert BEGIN_MS + YEARS_MS + 5000 == clocks.clock.stamp_ms()
    clocks.offset_ms -= YEARS_MS
    assert clocks.clock.moved_ms() == -YEARS_MS


def test_small_steps_that_add_up_within_an_hour_are_a_leap() -> None:
    """Ten seconds every five minutes are followed until they are more than a minute together."""
    clocks = Clocks()
    followed = 0
    for _ in range(12):
        clocks.run(5 * MINUTE_MS)
        clocks.offset_ms += 10_000
        if clocks.clock.moved_ms():
            break
        followed += 1

    assert followed == 6


def test_slewing_for_months_is_no_leap() -> None:
    """500 parts per million, the most that NTP slews by, in hours that add up to an hour of difference and more."""
    clocks = Clocks()
    for _ in range(48):
        clocks.run(HOUR_MS, slew_ms=1800)
    clocks.run(100 * 24 * HOUR_MS, slew_ms=100 * 24 * 1800)  # nobody asked for the time meanwhile

    assert clocks.clock.moved_ms() == 0
    assert BEGIN_MS < clocks.clock.stamp_ms()


def test_sleep_of_the_machine_is_no_leap() -> None:
    """The clock since boot goes on while the machine sleeps, so both are later by as much."""
    clocks = Clocks()
    clocks.run(20 * 24 * HOUR_MS)

    assert clocks.clock.stamp_ms() == BEGIN_MS + 5000 + 20 * 24 * HOUR_MS


def test_a_pause_between_the_two_looks_is_no_leap() -> None:
    """A process that is held up for minutes after it read one clock reads both again."""
    boot = iter([0, 0, 1000, 301_000, 301_000, 301_000])
    wall = iter([BEGIN_MS, BEGIN_MS, BEGIN_MS + 2000, BEGIN_MS + 2000, BEGIN_MS + 301_000])
    clock = WallClock(lambda: next(wall) * 1_000_000, lambda: next(boot) * 1_000_000)
    assert BEGIN_MS == clock.now_ms()

    assert BEGIN_MS + 301_000 == clock.stamp_ms()


def test_a_mark_of_an_earlier_process_tells_a_leap_between_them() -> None:
    """A service that starts while the clock is wrong finds out by what the one before it saw."""
    before = Clocks()
    after = Clocks()
    after.boot_ms, after.offset_ms = before.boot_ms + HOUR_MS, before.offset_ms + YEARS_MS
    after.clock.agree()
    after.clock.expect(before.clock.mark())

    assert YEARS_MS == after.clock.moved_ms()
    assert BEGIN_MS + 5000 + HOUR_MS == after.clock.now_ms()


def test_a_time_up_to_a_minute_ahead_is_taken() -> None:
    """A minute is, a millisecond more is refused, and so is what no log could hold."""
    clock = Clocks().clock
    now = clock.now_ms()

    clock.refuse_ahead(now + MINUTE_MS)
    clock.refuse_ahead(0)
    with pytest.raises(TimeAheadError, match="60 s ahead of the wall clock, more than 60 s"):
        clock.refuse_ahead(now + MINUTE_MS + 1)
    for wrong in (-1, TIME_MS_MAX + 1):
        with pytest.raises(ValueError, match="is outside 0"):
            clock.refuse_ahead(wrong)
