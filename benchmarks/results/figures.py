"""Finds, in the lines of a run, the rates of slotlog and of what stands beside it.

A line is JSON, as `python -m benchmarks` prints it. Events come from Kafka, and are applied by slotlog, by the floor
and, HSET alone, by Quix Streams. Commands come over RESP, 16 in a pipeline, and are answered by slotlog on the embedded
log and by valkey-server with `appendfsync always`, which keeps as much. Replays are those of one process, of the floor,
and of two processes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from os import cpu_count
from typing import Any, Final, NamedTuple

from slotlog.clock import now_ms

SLOTLOG: Final = "slotlog"
FLOOR: Final = "floor"
QUIX: Final = "Quix Streams"
VALKEY: Final = "valkey-server"
TWO: Final = "two processes"
EVENTS: Final = "Events from Kafka, applied in a second"
REQUESTS: Final = "Commands over RESP by 16, answered in a second"
REPLAYS: Final = "HSETs replayed in a second"
_WORKLOADS: Final = ("hset", "set", "incr", "zadd", "lpush", "flights")
_COMMANDS: Final = ("set", "hset", "incr", "lpush", "zadd", "get", "hget")


class Group(NamedTuple):
    """Rates of the same work.

    Attributes:
        name: of the work.
        per_second: by who did it, slotlog first.
        ratios: by who stands beside, slotlog's rate by theirs: the median of the pairs.
    """

    name: str
    per_second: dict[str, int]
    ratios: dict[str, float]


class Panel(NamedTuple):
    """Groups that have one scale."""

    title: str
    groups: list[Group]


def description() -> str:
    """A line that says where and when a run was made."""
    facts = {
        "name": "run",
        "date": f"{datetime.fromtimestamp(now_ms() / 1000, UTC):%F}",
        "python": platform.python_version(),
    }
    versions = {name: version(name) for name in ("rocksdict", "aiokafka")}
    return json.dumps({**facts, **versions, "cores": cpu_count()})


def results_of(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The results by their names; what is no JSON is passed over, as output of make.

    Where they are of several runs `run` has the first and the last date.
    """
    results = [json.loads(line) for line in lines if line.startswith("{")]
    found = {result["name"]: result for result in results}
    dates = sorted({result["date"] for result in results if "date" in result})
    if len(dates) > 1:
        found["run"] = {**found["run"], "date": f"{dates[0]} to {dates[-1]}"}
    return found


def panels_of(results: dict[str, dict[str, Any]]) -> list[Panel]:
    """What the results have of the panels, as far as there is anything."""
    panels = [
        Panel(EVENTS, _events(results)),
        Panel(REQUESTS, _requests(results)),
        Panel(REPLAYS, _replays(results)),
    ]
    return [panel for panel in panels if panel.groups]


def _events(results: dict[str, dict[str, Any]]) -> list[Group]:
    groups = []
    for workload in _WORKLOADS:
        if found := results.get(f"{workload}_kafka"):
            rates = {SLOTLOG: found["per_second"], FLOOR: found["floor_per_second"]}
            ratios = {FLOOR: found["ratio"]}
            if workload == "hset" and (quix := results.get("quix_hset")):
                rates[QUIX], ratios[QUIX] = quix["floor_per_second"], quix["ratio"]
            groups.append(Group(workload.upper() if workload != "flights" else "flights", rates, ratios))
    return groups


def _replays(results: dict[str, dict[str, Any]]) -> list[Group]:
    return [
        Group(
            log,
            {SLOTLOG: found["per_second"], FLOOR: found["floor_per_second"], TWO: found["two_per_second"]},
            {FLOOR: found["ratio"], TWO: round(1 / found["two_ratio"], 2)},
        )
        for log in ("embedded", "kafka")
        if (found := results.get(f"replay_hset_{log}"))
    ]


def _requests(results: dict[str, dict[str, Any]]) -> list[Group]:
    return [
        Group(
            command.upper(),
            {SLOTLOG: found["per_second"], VALKEY: found["always_per_second"]},
            {VALKEY: found["always_ratio"]},
        )
        for command in _COMMANDS
        if (found := results.get(f"resp_{command}_16_embedded"))
    ]
