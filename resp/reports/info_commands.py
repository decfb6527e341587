"""INFO's sections about commands: calls, durations, failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from engine.values.replies import Reply
from resp.statistics.latency import histogram

if TYPE_CHECKING:
    from resp.catalog.plans import Plan
    from resp.clients.session import Session
    from resp.clients.shared import Shared

Fields = Iterator[tuple[str, Reply]]
"""Names and values."""


def commandstats(server: Shared[Session]) -> Fields:
    """How often each command ran, and how long."""
    for plan in _used(server):
        microseconds = round(plan.seconds * 1_000_000)
        each = microseconds / plan.calls if plan.calls else 0.0
        yield (
            f"cmdstat_{plan.shown}",
            (
                f"calls={plan.calls},usec={microseconds},usec_per_call={each:.2f},"
                f"rejected_calls={plan.rejected},failed_calls={plan.failed}"
            ),
        )


def errorstats(server: Shared[Session]) -> Fields:
    """How many error replies of each code there were."""
    for code, count in sorted(server.stats.errors.items()):
        yield f"errorstat_{code}", f"count={count}"


def latencystats(server: Shared[Session]) -> Fields:
    """How long each command took, in percentiles."""
    wanted: tuple[float, ...] = server.config["latency-tracking-info-percentiles"]
    for plan in _used(server):
        if plan.buckets and wanted and server.config["latency-tracking"]:
            shown = (f"p{percent:g}={_percentile(plan.buckets, percent):.3f}" for percent in wanted)
            yield f"latency_percentiles_usec_{plan.shown}", ",".join(shown)


def _used(server: Shared[Session]) -> list[Plan]:
    """The commands that were called or refused, by name."""
    return sorted(
        (plan for plan in server.plans.by_name.values() if plan.calls or plan.rejected or plan.failed),
        key=lambda plan: plan.shown,
    )


def _percentile(buckets: Mapping[int, int], percent: float) -> float:
    """The bound in microseconds below which so many of a hundred calls stayed."""
    bounds = histogram(buckets)
    enough = percent / 100 * bounds[-1][1]
    return float(next(bound for bound, calls in bounds if calls >= enough))
