"""LATENCY: the server's pauses by kind, and the durations of commands.

A moment of at least `latency-monitor-threshold` ms is a sample. Of one kind, one second keeps its longest sample alone,
and the 160 newest such seconds are kept, as in Redis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final

from slotlog.clock import now_ms

_SAMPLES_MAX: Final = 160
_GRAPH_ROWS: Final = 4
_GRAPH_COLUMNS: Final = 80
_LEVELS: Final = "_o#"  # within one row of the graph, from low to high
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


class Series:
    """The samples of one kind.

    Attributes:
        samples: (Unix time in s, ms), oldest first.
        max_ms, sum_ms, count: of all samples since the last reset, dropped ones included.
    """

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES_MAX)
        self.max_ms = 0
        self.sum_ms = 0
        self.count = 0

    def add(self, time_s: int, ms: int) -> None:
        """Take in one sample."""
        self.max_ms = max(self.max_ms, ms)
        self.sum_ms += ms
        self.count += 1
        if self.samples and self.samples[-1][0] == time_s:
            ms = max(ms, self.samples.pop()[1])
        self.samples.append((time_s, ms))


class Latency:
    """The samples of every kind.

    Attributes:
        threshold_ms: `latency-monitor-threshold`: what takes less is no sample; 0: nothing is.
        events: kind, such as `command` -> its samples.
    """

    def __init__(self) -> None:
        self.threshold_ms = 0
        self.events: dict[str, Series] = {}

    @property
    def slow_seconds(self) -> float:
        """What takes less need not be told."""
        return self.threshold_ms / 1000 if self.threshold_ms else inf

    def add(self, event: str, ms: int) -> None:
        """Something took `ms`: a sample, if that is long enough."""
        if 0 < self.threshold_ms <= ms:
            self.events.setdefault(event, Series()).add(now_ms() // 1000, ms)

    def reset(self, events: list[str]) -> int:
        """Forget these kinds, all if none is named; returns how many there were."""
        names = events or list(self.events)
        return sum(self.events.pop(name, None) is not None for name in names)

    def report(self) -> str:
        """What LATENCY DOCTOR says."""
        if not self.threshold_ms:
            return "Latency is not watched: CONFIG SET latency-monitor-threshold <milliseconds> begins with it.\n"
        if not self.events:
            return f"Nothing has taken {self.threshold_ms} ms or more since the server started or was reset.\n"
        lines = [
            f"{at}. {name}: {series.count} samples, {series.sum_ms // series.count} ms on average, "
            f"{series.max_ms} ms at most."
            for at, (name, series) in enumerate(self.events.items(), start=1)
        ]
        advice = "SLOWLOG GET shows which commands were slow; a slow disk or broker shows in the metrics of the log."
        return "\n".join([f"These took {self.threshold_ms} ms or more:", "", *lines, "", advice, ""])


def graph(event: str, series: Series) -> str:
    """What LATENCY GRAPH shows: one column for each sample, and below it how long ago that was."""
    now_s = now_ms() // 1000
    samples = list(series.samples)[-_GRAPH_COLUMNS:]
    values = [ms for _, ms in samples]
    high, low = max(values), min(values)
    heights = [_height(ms - low, high - low) for ms in values]
    rows = ["".join(_mark(height - row * len(_LEVELS)) for height in heights) for row in reversed(range(_GRAPH_ROWS))]
    ages = [_age(now_s - time_s) for time_s, _ in samples]
    labels = ["".join(age[at : at + 1] or " " for age in ages) for at in range(max(map(len, ages)))]
    title = f"{event} - high {high} ms, low {low} ms (all time high {series.max_ms} ms)"
    lines = [title, "-" * _GRAPH_COLUMNS, *rows, " " * len(samples), *labels]
    return "\n".join(lines) + "\n"


def histogram(buckets: Mapping[int, int]) -> list[tuple[int, int]]:
    """What LATENCY HISTOGRAM shows of a command: (µs, calls that took at most that long), where calls were added.

    Args:
        buckets: number of binary digits of the whole µs that a call took -> calls.

    The bounds are Redis' own: powers of two of 1024 ns, rounded up to what its histogram can tell apart (1/128).
    """
    shown, calls = [], 0
    for digits in sorted(buckets):
        calls += buckets[digits]
        exponent = digits + 10
        shown.append((((1 << exponent) + (1 << exponent - 7) - 1) // 1000, calls))
    return shown


def _height(value: int, spread: int) -> int:
    steps = _GRAPH_ROWS * len(_LEVELS)
    return min(value * steps // (spread or 1), steps - 1)


def _mark(above: int) -> str:
    """What stands in a row for a column whose height is `above` its foot."""
    if above < 0:
        return " "
    return _LEVELS[above] if above < len(_LEVELS) else "|"


def _age(seconds: int) -> str:
    for unit_seconds, unit in _UNITS:
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds}{unit}"
    return f"{seconds}s"
