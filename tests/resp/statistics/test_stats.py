"""The server's counters: rates, error codes, and the event loop that has no figures."""

from __future__ import annotations

import asyncio

from resp.statistics.loop_use import LoopUse
from resp.statistics.stats import Rate, Stats


def test_rate_is_the_mean_of_the_last_samples() -> None:
    """A rate is the mean of 16 samples, and forgets what is older."""
    rate = Rate()
    total = 0
    for _ in range(16):
        total += 100
        rate.sample(total, 0.5)
    assert 200.0 == rate.mean

    for _ in range(16):
        rate.sample(total, 0.5)
    assert 0.0 == rate.mean


def test_samples_need_time_between_them() -> None:
    """The first sample, and one at the same moment, say nothing of a rate."""
    stats = Stats()
    stats.net_input_bytes = 1024
    stats.sample(5.0, 10)
    stats.sample(5.0, 10)
    assert (0, 0.0) == (stats.operations_per_second, stats.input_kib_per_second)

    stats.sample(6.0, 30)
    assert (30, 1.0) == (stats.operations_per_second, stats.input_kib_per_second)


def test_error_codes_are_bounded() -> None:
    """There are at most 128 error codes of their own, as in Redis; further ones are counted together."""
    stats = Stats()
    for number in range(130):
        stats.count_error(f"E{number} text")
    stats.count_error("E0 again")

    assert (129, 2, 2, 131) == (
        len(stats.errors),
        stats.errors["ERRORSTATS_OVERFLOW"],
        stats.errors["E0"],
        stats.error_replies,
    )


def test_a_loop_that_does_not_tell() -> None:
    """No event loop but uvloop's has these figures: there is nothing to show then."""
    loop = asyncio.new_event_loop()
    use = LoopUse.of(loop)
    loop.close()

    assert use is None
