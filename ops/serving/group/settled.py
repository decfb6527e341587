"""Tells what a group lacks: a partition that is not served, a standby that is not at its end."""

from __future__ import annotations

from ingest.applying.consumer import Consumer
from ingest.membership import Plan
from resp.cluster.nodes import Node
from resp.server import Server
from slotlog.wording import counted


def unsettled(plan: Plan, name: str, consumer: Consumer, server: Server | None) -> str:
    """Why a group is not at rest yet, as one of its workers sees it; empty when it is.

    Args:
        plan: the last one.
        name: of this worker.
        consumer: applies its partitions.
        server: serves them, and hears how the others are; None: this worker's own partitions are all that is known.
    """
    for partition, owner in plan.warming.items():
        return f"partition {partition} is to move to {owner}, which is being brought near the log's end"
    for partition, role in plan.roles(name).items():
        owned = consumer.every[partition]
        if owned.role is not role or not owned.worker.is_open:
            return f"partition {partition} is being opened, to have it as its {role}"
    return "" if server is None else _unanswered(plan, server)


def is_served(plan: Plan, partition: int, server: Server) -> bool:
    """Whether a partition's owner answers in it, as it says; one without an address for clients is not asked."""
    owner = server.cluster.owner_node(partition)
    if owner is not None:
        return server.bus.peers.serves(owner, partition)
    return not plan.members[plan.owners[partition]].resp


def _unanswered(plan: Plan, server: Server) -> str:
    """Which copy of a partition does not answer yet, as its worker says."""
    for partition in plan.owners:
        if not is_served(plan, partition, server):
            return f"partition {partition} is not served yet{_by(server.cluster.owner_node(partition))}"
        followers = server.cluster.standbys.get(partition, ())
        away = [node for node in followers if server.bus.peers.followed_to(node, partition) is None]
        if away:
            return f"partition {partition} has {counted(len(away), 'standby')} not at its end yet{_by(away[0])}"
    return ""


def _by(node: Node | None) -> str:
    return "" if node is None else f", at {node.host}:{node.port}"
