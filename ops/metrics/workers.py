"""The metrics of workers among themselves, and of their group: their part of the catalog, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.membership.plan import Role
from ops.metrics.readings import Readings
from ops.metrics.record import Metric, MetricKind
from resp.cluster.bus import Bus
from resp.cluster.bus.link import Loss
from resp.cluster.nodes import NodeHealth

_SCRAPE: Final = "read at each scrape"
_PLAN: Final = "once a plan of the group"


def _metric(
    name: str, text: str, unit: str, labels: tuple[str, ...] = (), source: str = _SCRAPE, needs: str = ""
) -> Metric:
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(f"slotlog_{name}", kind, text, unit, labels, source, needs=needs)


WORKERS: Final = (
    _metric(
        "peers",
        "Other workers in `redis.peers` or the group, by whether they answer.",
        "workers",
        ("health",),
        needs="resp",
    ),
    _metric("peers_connected", "Those of them to which a link is up.", "workers", needs="resp"),
    _metric("peer_messages_sent_total", "Pub/Sub messages that other workers took.", "messages", needs="resp"),
    _metric("peer_messages_received_total", "Pub/Sub messages from other workers.", "messages", needs="resp"),
    _metric(
        "peer_messages_lost_total",
        "Pub/Sub messages that did not reach another worker, or may not have.",
        "messages",
        ("reason",),
        needs="resp",
    ),
)

GROUP: Final = (
    _metric(
        "partition_role",
        "1 for what the process is to the partition: its owner, or a follower in a group.",
        "0 or 1",
        ("partition", "role"),
    ),
    _metric(
        "standby_lag_events",
        "How far the state of a follower is behind what its owner has applied; 0 of an owner.",
        "events",
        ("partition",),
    ),
    _metric("group_members", "Workers in the last plan of the group; 0: no group.", "workers", source=_PLAN),
    _metric("group_rebalances_total", "Plans of the group that have come.", "plans", source=_PLAN),
    _metric(
        "group_lost",
        "1 while the worker is to be in a group, and Kafka may have given it up: it owns nothing then.",
        "0 or 1",
    ),
    _metric(
        "group_standbys_missing",
        "Followers that partitions are to have, and do not have in the last plan, all together.",
        "followers",
        source=_PLAN,
    ),
    _metric(
        "group_partitions_moving",
        "Partitions that another worker is to own once its state is near the log's end.",
        "partitions",
        source=_PLAN,
    ),
)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A worker's group as it is now; without a group nothing is in it.

    Attributes:
        members: workers in the last plan.
        rebalances: plans that have come.
        is_lost: whether Kafka may have given this worker up.
        standbys_missing: followers that there are to be, and are not.
        moving: partitions on their way to another worker.
        behind: of each partition that is followed here: the events by which it is behind its owner.
    """

    members: int = 0
    rebalances: int = 0
    is_lost: bool = False
    standbys_missing: int = 0
    moving: int = 0
    behind: Mapping[int, int] = field(default_factory=dict)


def read_workers(readings: Readings, bus: Bus) -> None:
    """The links to other workers."""
    for health in NodeHealth:
        readings.add("peers", bus.peers.count(health), health)
    readings.add("peers_connected", sum(link.is_up for link in bus.links.values()))
    readings.add("peer_messages_sent_total", bus.sent)
    readings.add("peer_messages_received_total", bus.received)
    for loss in Loss:
        readings.add("peer_messages_lost_total", bus.lost(loss), loss)


def read_group(readings: Readings, group: GroupFigures, partitions: Mapping[int, OwnedPartition]) -> None:
    """The group, and what this process is to each partition that it applies."""
    for partition, owned in partitions.items():
        for role in (Role.OWNER, Role.FOLLOWER):
            readings.add("partition_role", owned.role is role, str(partition), str(role))
        readings.add("standby_lag_events", group.behind.get(partition, 0), str(partition))
    readings.add("group_members", group.members)
    readings.add("group_rebalances_total", group.rebalances)
    readings.add("group_lost", group.is_lost)
    readings.add("group_standbys_missing", group.standbys_missing)
    readings.add("group_partitions_moving", group.moving)
