"""Computes what many events and keys take from the figures of a run, for docs/scale.md.

No such system was run: each figure here is one that was measured, times what PLAN assumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.results.tables import Results, table

_MB: Final = 1e6
_GB: Final = 1e9
_TB: Final = 1e12
_DAY_S: Final = 86_400
_NEEDED: Final = (
    *("flights_kafka", "hset_kafka", "restore_10000000_keys"),
    *("resp_get_1_embedded", "resp_set_1_embedded", "resp_set_16_embedded"),
)

NO_RUN: Final = "No run that has all that this page multiplies is kept.\n"


class Plan(NamedTuple):
    """What is to be served, and on what. The log's bytes are those of docs/operations.md, Size."""

    events_per_second: float = 1e6
    keys: float = 1e10
    partitions: int = 256
    standbys: int = 1
    processes: int = 128
    zones: int = 3
    log_bytes_per_event: int = 170
    log_replicas: int = 3
    broker_write_bytes_per_second: float = 100e6
    store_bytes_per_second: float = 125e6
    snapshot_interval_s: int = 3 * 3_600
    session_s: int = 10


class Costs(NamedTuple):
    """What was measured: µs of one core, bytes, rates."""

    event_us: float
    hset_us: float
    write_16_us: float
    write_1_us: float
    read_1_us: float
    key_bytes: float
    replay_per_second: float
    snapshot_bytes_per_second: float

    @classmethod
    def of(cls, results: Results) -> Costs:
        """Those of a run. One process applies events from Kafka on one core, so its rate is its CPU time."""
        restore = results["restore_10000000_keys"]
        return cls(
            event_us=1e6 / results["flights_kafka"]["per_second"],
            hset_us=1e6 / results["hset_kafka"]["per_second"],
            write_16_us=results["resp_set_16_embedded"]["cpu_us"],
            write_1_us=results["resp_set_1_embedded"]["cpu_us"],
            read_1_us=results["resp_get_1_embedded"]["cpu_us"],
            key_bytes=restore["bytes"] / restore["keys"],
            replay_per_second=restore["keys"] / restore["replay_s"],
            snapshot_bytes_per_second=restore["bytes"] / restore["snapshot_s"],
        )


def part(results: Results, plan: Plan = Plan()) -> str:  # noqa: B008 - an immutable default
    """The tables of what was measured, what the plan takes, and how long things take then."""
    if any(name not in results for name in _NEEDED):
        return NO_RUN
    costs = Costs.of(results)
    return "\n".join(
        (
            table(("measured", "figure", "by the benchmark"), _measured(costs)),
            f"{plan.partitions} partitions, standbys of each: {plan.standbys}, on {plan.processes} processes:\n",
            table(("", "a partition", "a process", "all"), _taken(plan, costs)),
            table(("what happens", "it takes", "because"), _times(plan, costs)),
        )
    )


def _measured(costs: Costs) -> list[Sequence[str]]:
    return [
        ("CPU of an event from Kafka: flights, `HSET`", f"{costs.event_us:.1f}, {costs.hset_us:.1f} µs", "`kafka`"),
        (
            "CPU of a client's `SET`, in pipelines of 16 and one by one",
            f"{costs.write_16_us:.1f}, {costs.write_1_us:.1f} µs",
            "`resp`",
        ),
        ("CPU of a client's `GET`, one by one", f"{costs.read_1_us:.1f} µs", "`resp`"),
        ("bytes on disk, a small key", f"{costs.key_bytes:.0f}", "`restore`"),
        ("replay of 10⁷ keys", f"{costs.replay_per_second:,.0f} a second", "`restore`"),
        ("snapshot, with its verification", f"{costs.snapshot_bytes_per_second / _MB:.1f} MB/s", "`restore`"),
    ]


def _taken(plan: Plan, costs: Costs) -> list[Sequence[str]]:
    copies = 1 + plan.standbys
    events = plan.events_per_second / plan.partitions
    owned = plan.partitions / plan.processes
    applied = plan.events_per_second * copies * costs.event_us / 1e6
    clients = plan.events_per_second * (costs.write_1_us + plan.standbys * costs.hset_us) / 1e6
    keys = plan.keys / plan.partitions
    state = keys * costs.key_bytes
    log = plan.events_per_second * plan.log_bytes_per_event
    day = log * _DAY_S
    return [
        (
            "events a second",
            f"{events:,.0f}",
            f"{events * owned:,.0f}, and those that it follows",
            f"{plan.events_per_second:,.0f}",
        ),
        (
            "cores, events of services",
            f"{applied / copies / plan.partitions:.2f}",
            f"{applied / plan.processes:.2f}",
            f"{applied:.0f}",
        ),
        (
            "cores, clients' writes one by one",
            f"{events * costs.write_1_us / 1e6:.2f}",
            f"{clients / plan.processes:.2f}",
            f"{clients:.0f}",
        ),
        (
            "keys",
            f"{keys / 1e6:.0f} million",
            f"{keys * owned * copies / 1e6:.0f} million",
            f"{plan.keys / 1e9:,.0f} billion, {copies} times",
        ),
        (
            "disk of the state",
            f"{state / _GB:.1f} GB",
            f"{state * owned * copies / _GB:.0f} GB, twice while a snapshot is verified",
            f"{state * plan.partitions * copies / _TB:.1f} TB",
        ),
        (
            "log, in",
            f"{log / plan.partitions / _MB:.2f} MB/s",
            "",
            f"{log / _MB:.0f} MB/s, {day / _TB:.1f} TB a day, {day * plan.log_replicas / _TB:.0f} TB on replicas",
        ),
        ("log, out", "", f"{log * copies / plan.processes / _MB:.1f} MB/s", f"{log * copies / _MB:.0f} MB/s"),
        (
            f"brokers that write {plan.broker_write_bytes_per_second / _MB:.0f} MB/s each (assumed)",
            "",
            "",
            f"{log * plan.log_replicas / plan.broker_write_bytes_per_second:.1f}, and one that may fail",
        ),
        (
            f"to the object store, a snapshot every {plan.snapshot_interval_s / 3_600:g} hours",
            "",
            f"{state * owned / plan.snapshot_interval_s / _MB:.1f} MB/s",
            f"{state * plan.partitions / plan.snapshot_interval_s / _MB:.0f} MB/s",
        ),
    ]


def _times(plan: Plan, costs: Costs) -> list[Sequence[str]]:
    events = plan.events_per_second / plan.partitions
    state = plan.keys / plan.partitions * costs.key_bytes
    owned = plan.partitions / plan.processes
    restore_s = state / plan.store_bytes_per_second
    waiting = events * plan.snapshot_interval_s
    behind = waiting / costs.replay_per_second
    left = plan.processes * (1 - 1 / plan.zones)
    lost = plan.partitions * (1 + plan.standbys) / plan.zones
    store = f"{plan.store_bytes_per_second / _MB:.0f} MB/s of the object store (assumed)"
    return [
        (
            "failover to a standby",
            f"{plan.session_s} s and {events / 2 * costs.event_us / 1e6 * 1e3:.0f} ms",
            "the session time-out, then half a second of events that it is behind",
        ),
        (
            "failover without one, a partition",
            f"{plan.session_s} s, {restore_s:.0f} s, then up to {behind / 60:.0f} minutes",
            f"restore at {store}, and replay of the {waiting / 1e6:.0f} million events since the snapshot",
        ),
        (
            "a snapshot of a process's partitions",
            f"{state * owned / costs.snapshot_bytes_per_second / 60:.0f} minutes",
            "one at a time, whole, with its verification",
        ),
        (
            f"a zone lost, one of {plan.zones}",
            f"{plan.events_per_second * costs.write_1_us / 1e6 / left:.2f} of a core for clients one by one",
            f"{left:.0f} processes own all; {lost:.0f} partitions need a new copy, {lost * state / _GB:.0f} GB",
        ),
        (
            "one process, clients' writes one by one",
            f"at most {1e6 / costs.write_1_us:,.0f} a second",
            "an event loop has one core",
        ),
        (
            "a hot key",
            f"{1e6 / costs.write_16_us:,.0f} pipelined writes a second, {1e6 / costs.event_us:,.0f} events",
            "one partition is applied by one core",
        ),
    ]
