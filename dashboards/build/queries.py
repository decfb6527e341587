"""PromQL of the panels, with the variables' matchers. A metric outside the catalog is an error."""

from __future__ import annotations

from typing import Final

from ops.metrics import CATALOG

_OTHERS: Final = {
    "ALERTS": (),
    "instance:slotlog_disk_free_bytes:predicted_4h": (),
    "partition:slotlog_lag_events:seconds_to_catch_up": ("partition",),
}
"""What Prometheus and the rules of alerts.yml make, with labels of ours."""

_LABELS: Final = {name: metric.labels for metric in CATALOG for name in metric.series_names} | _OTHERS


def series(name: str, *matchers: str) -> str:
    """The series of a metric that are chosen: `matchers`, such as `condition="stopped"`, choose further.

    Raises:
        KeyError: there is no such metric.
    """
    variables = ("job", "instance", *(label for label in _LABELS[name] if label == "partition"))
    chosen = ", ".join([*(f'{label}=~"${label}"' for label in variables), *matchers])
    return f"{name}{{{chosen}}}"


def ours(expression: str) -> str:
    """Those of the series with a job and an instance that are slotlog's: `$job` may be all jobs that there are."""
    return f"({expression} and on (job, instance) {series('slotlog_build_info')})"


def each(name: str, *by: str) -> str:
    """A gauge, summed up to the labels `by`."""
    return f"{_sum(by)}({series(name)})"


def highest(name: str, *by: str) -> str:
    """The highest of a gauge for the labels `by`."""
    return f"max by ({', '.join(by)}) ({series(name)})"


def lag_events(*by: str) -> str:
    """The lag in events, summed up to the labels `by`; nothing where it is not known of one of those."""
    return f"{each('slotlog_lag_events', *by)} and min by ({', '.join(by)}) ({series('slotlog_lag_known')}) == 1"


def rate(name: str, *by: str) -> str:
    """What a counter grows by in a second, summed up to the labels `by`."""
    return f"{_sum(by)}(rate({series(name)}[$__rate_interval]))"


def growth(name: str, *by: str) -> str:
    """What a counter grows by in the interval of a point, summed up to the labels `by`: for what is rare."""
    return f"{_sum(by)}(increase({series(name)}[$__rate_interval]))"


def quantile(share: float, histogram: str, *by: str) -> str:
    """The value that `share` of the observations of a histogram do not exceed."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', 'le', *by)})"


def mean(histogram: str, *by: str) -> str:
    """The mean of a histogram's observations."""
    return f"{rate(f'{histogram}_sum', *by)} / {rate(f'{histogram}_count', *by)}"


def quantiles(histogram: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Two queries: the median and the 99th percentile for each process."""
    return (
        (quantile(0.5, histogram, "instance"), "p50 {{instance}}"),
        (quantile(0.99, histogram, "instance"), "p99 {{instance}}"),
    )


def _sum(by: tuple[str, ...]) -> str:
    return f"sum by ({', '.join(by)}) " if by else "sum"
