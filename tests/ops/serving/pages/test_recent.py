"""Quantiles of the last minute."""

from __future__ import annotations

from ops.serving.pages.recent import RecentQuantile
from slotlog.distribution import Distribution


def test_only_the_last_minute_counts() -> None:
    """What was counted over a minute ago has no part in it; where nothing was counted since there is none."""
    distribution = Distribution((1.0, 2.0, 4.0))
    recent = RecentQuantile(distribution, 0.99)
    found = [recent.at(0.0)]
    distribution.add(4.0, 1000)
    found.append(recent.at(10.0))
    distribution.add(1.5, 99)
    found.append(recent.at(69.0))
    found.append(recent.at(80.0))
    found.append(recent.at(150.0))

    assert [None, 4.0, 4.0, 2.0, None] == found


def test_the_quantile_is_the_bound_that_so_many_do_not_exceed() -> None:
    """Of a hundred values the one that 99 do not exceed; beyond all bounds it is infinite."""
    distribution = Distribution((1.0, 2.0))
    recent = RecentQuantile(distribution, 0.99)
    recent.at(0.0)
    distribution.add(0.5, 99)
    distribution.add(3.0, 1)
    first = recent.at(1.0)
    distribution.add(3.0, 1)

    assert (1.0, float("inf")) == (first, recent.at(2.0))
