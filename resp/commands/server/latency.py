"""LATENCY: pauses of the server, and the durations of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CommandError
from engine.values.replies import Map, Reply, Verbatim
from resp.catalog.plans import Plan
from resp.catalog.server_registry import CONTAINERS
from resp.commands.handlers import Client, server_command
from resp.statistics.latency import graph, histogram

if TYPE_CHECKING:
    from resp.catalog.plans import Plans
    from resp.statistics.latency import Latency
    from resp.statistics.slowlog import SlowLog

_FLAGS: Final = ("admin", "noscript", "loading", "stale")
_CATEGORIES: Final = ("admin", "slow", "dangerous")


class SlowMoments(Protocol):
    """The slow commands of a server, and the moments at which it stood still."""

    latency: Latency
    slowlog: SlowLog
    plans: Plans


@server_command("LATENCY LATEST", group="server", since="2.8.13", flags=_FLAGS, categories=_CATEGORIES, container=True)
def latency_latest(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return for each kind of event: name, Unix time and ms of the newest sample, the longest, their sum and count."""
    return [
        [name.encode(), *series.samples[-1], series.max_ms, series.sum_ms, series.count]
        for name, series in client.server.latency.events.items()
    ]


@server_command(
    "LATENCY HISTORY event", group="server", since="2.8.13", flags=_FLAGS, categories=_CATEGORIES, container=True
)
def latency_history(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return the samples of one kind of event as Unix time and ms, oldest first."""
    series = client.server.latency.events.get(_text(args[0]))
    return [] if series is None else [list(sample) for sample in series.samples]


@server_command(
    "LATENCY GRAPH event", group="server", since="2.8.13", flags=_FLAGS, categories=_CATEGORIES, container=True
)
def latency_graph(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return a chart of the samples of one kind of event, in characters."""
    event = _text(args[0])
    series = client.server.latency.events.get(event)
    if series is None:
        raise CommandError(f"ERR No samples available for event '{event}'")
    return Verbatim(graph(event, series).encode(errors="surrogateescape"))


@server_command("LATENCY DOCTOR", group="server", since="2.8.13", flags=_FLAGS, categories=_CATEGORIES, container=True)
def latency_doctor(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return the samples in words."""
    return Verbatim(client.server.latency.report().encode())


@server_command(
    "LATENCY RESET [event ...]",
    group="server",
    since="2.8.13",
    complexity="O(events named)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
)
def latency_reset(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Delete the samples of these kinds of event, or all. Returns how many kinds had any."""
    return client.server.latency.reset([_text(name) for name in args])


@server_command(
    "LATENCY HISTOGRAM [command ...]",
    group="server",
    since="7.0.0",
    complexity="O(commands named)",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
)
def latency_histogram(client: Client[SlowMoments], args: list[bytes]) -> Reply:
    """Return for each command that ran, or for those named, how many calls took at most so many µs."""
    plans = _named_plans(client.server, args) if args else list(client.server.plans.by_name.values())
    return Map([(plan.shown.encode(), _calls(plan)) for plan in plans if plan.buckets])


def _named_plans(server: SlowMoments, names: list[bytes]) -> list[Plan]:
    """The commands of these names; of a container, its subcommands. Unknown names are passed over."""
    plans = server.plans.by_name
    found: list[Plan] = []
    for name in map(bytes.upper, names):
        if name in CONTAINERS:
            found += [plans[spec.name] for spec in CONTAINERS[name]]
        elif name in plans:
            found.append(plans[name])
    return found


def _calls(plan: Plan) -> Map:
    return Map([(b"calls", sum(plan.buckets.values())), (b"histogram_usec", Map(histogram(plan.buckets)))])


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")
