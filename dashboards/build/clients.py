"""Clients: who is connected over RESP, what they ask for, how long it takes, what goes wrong."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.build.frame import Row, dashboard
from dashboards.build.panels import graph
from dashboards.build.queries import each, growth, highest, quantiles, rate, series

_INSTANCE: Final = "{{instance}}"
_OWNED: Final = series("slotlog_partition_role", 'role="owner"')
_COMMAND: Final = "{{command}}"


def clients() -> Dashboard:
    """For slow or refused Redis clients. Empty without `--resp`."""
    return dashboard(
        "clients",
        "Redis clients: connections, commands, latency, errors, traffic, messages between workers.",
        [_connections(), _commands(), _latency(), _errors(), _traffic(), _workers(), _group()],
    )


def _connections() -> Row:
    return "Connections", [
        graph(
            "Clients",
            "Connected, and those of them that wait for an element (BLPOP and the like).",
            "none",
            (each("slotlog_resp_clients", "instance"), f"connected {_INSTANCE}"),
            (each("slotlog_resp_blocked_clients", "instance"), f"blocked {_INSTANCE}"),
        ),
        graph(
            "Connections accepted",
            "In a second. Many for few clients: they do not keep their connections.",
            "ops",
            (rate("slotlog_resp_connections_total", "instance"), _INSTANCE),
        ),
        graph(
            "Connections lost",
            "In the interval of a point. Rejected: beyond maxclients, or not from this machine while there is no "
            "password. Cut off: at the limit of a buffer.",
            "none",
            (growth("slotlog_resp_connections_rejected_total"), "rejected"),
            (growth("slotlog_resp_clients_cut_off_total", "buffer"), "cut off, {{buffer}}"),
        ),
    ]


def _commands() -> Row:
    seconds = rate("slotlog_resp_command_seconds_total", "command")
    runs = rate("slotlog_resp_commands_total", "command")
    return "Commands", [
        graph(
            "Commands",
            "The ten that run most often, in a second.",
            "ops",
            (f"topk(10, {runs})", _COMMAND),
            stacked=True,
        ),
        graph(
            "Where the time goes",
            "The ten that take the most time, in seconds of every second.",
            "percentunit",
            (f"topk(10, {seconds})", _COMMAND),
            stacked=True,
        ),
        graph(
            "Mean time of a command",
            "The ten slowest, without their way through the log.",
            "s",
            (f"topk(10, {seconds} / ({runs} > 0))", _COMMAND),
        ),
    ]


def _latency() -> Row:
    return "Latency", [
        graph(
            "Commands that need no log",
            "From the client's bytes to the end of what they asked for.",
            "s",
            *quantiles("slotlog_resp_request_seconds"),
        ),
        graph(
            "Writes",
            "From the request to the reply: durable in the log and applied.",
            "s",
            *quantiles("slotlog_resp_write_seconds"),
        ),
        graph(
            "Writes under way",
            "Taken and not answered.",
            "none",
            (each("slotlog_resp_pending_writes", "instance", "partition"), "{{instance}} {{partition}}"),
            stacked=True,
        ),
    ]


def _errors() -> Row:
    return "Errors", [
        graph(
            "Error replies",
            "By their code, in a second.",
            "ops",
            (rate("slotlog_resp_errors_total", "code"), "{{code}}"),
            stacked=True,
        ),
        graph(
            "Commands that failed",
            "The ten that most often ran and answered with an error, in a second.",
            "ops",
            (f"topk(10, {rate('slotlog_resp_commands_failed_total', 'command')})", _COMMAND),
        ),
        graph(
            "Commands refused",
            "The ten that were most often refused before they ran: wrong arguments, rights, another worker's slot.",
            "ops",
            (f"topk(10, {rate('slotlog_resp_commands_refused_total', 'command')})", _COMMAND),
        ),
    ]


def _traffic() -> Row:
    hits, misses = rate("slotlog_resp_keyspace_hits_total"), rate("slotlog_resp_keyspace_misses_total")
    return "Traffic", [
        graph(
            "Bytes from clients",
            "In a second.",
            "Bps",
            (rate("slotlog_resp_received_bytes_total", "instance"), _INSTANCE),
            stacked=True,
        ),
        graph(
            "Bytes to clients",
            "In a second.",
            "Bps",
            (rate("slotlog_resp_sent_bytes_total", "instance"), _INSTANCE),
            stacked=True,
        ),
        graph(
            "Reads that find their key",
            "Share of the reads that found the key that they asked for.",
            "percentunit",
            (f"{hits} / ({hits} + {misses})", "hits"),
        ),
    ]


def _workers() -> Row:
    return "Between workers", [
        graph(
            "Peers",
            "Other workers of the topic that each process knows, by whether they answer it. None with a single worker.",
            "none",
            (each("slotlog_peers", "instance", "health"), "{{health}} {{instance}}"),
            (each("slotlog_peers_connected", "instance"), f"connected {_INSTANCE}"),
        ),
        graph(
            "Owners of partitions",
            "Workers that say that they apply a partition, the most of any, and partitions of the topic that nobody "
            "applies. It should be 1, and 0.",
            "none",
            (highest("slotlog_partition_owners", "instance"), f"most owners {_INSTANCE}"),
            (each("slotlog_partitions_unowned", "instance"), f"without an owner {_INSTANCE}"),
        ),
        graph(
            "Messages between workers",
            "Pub/Sub messages handed over to other workers and taken from them, in a second.",
            "ops",
            (rate("slotlog_peer_messages_sent_total", "instance"), f"sent {_INSTANCE}"),
            (rate("slotlog_peer_messages_received_total", "instance"), f"received {_INSTANCE}"),
        ),
        graph(
            "Messages lost between workers",
            "In the interval of a point, by the reason: the other worker had failed, too much waited for it, the link "
            "broke before its answer, it refused them.",
            "none",
            (growth("slotlog_peer_messages_lost_total", "reason"), "{{reason}}"),
        ),
    ]


def _group() -> Row:
    return "Group of workers", [
        graph(
            "Partitions by role",
            "Partitions that each process owns, and those that it follows in a group.",
            "none",
            (each("slotlog_partition_role", "instance", "role"), "{{role}} {{instance}}"),
            stacked=True,
        ),
        graph(
            "Owner of each partition",
            "The processes that own a partition. Two lines at a time: two owners.",
            "none",
            (
                f"sum by (partition, instance) ({_OWNED}) > 0",
                "{{partition}} {{instance}}",
            ),
        ),
        graph(
            "Standby lag",
            "Events by which the standby that is furthest behind is behind its owner, for each process.",
            "short",
            (highest("slotlog_standby_lag_events", "instance"), _INSTANCE),
        ),
        graph(
            "Members, and what is under way",
            "Workers in the last plan of the group, partitions that move to another worker, standbys that are missing.",
            "none",
            (highest("slotlog_group_members", "instance"), f"members {_INSTANCE}"),
            (highest("slotlog_group_partitions_moving", "instance"), f"moving {_INSTANCE}"),
            (highest("slotlog_group_standbys_missing", "instance"), f"standbys missing {_INSTANCE}"),
        ),
        graph(
            "Rebalances",
            "Plans of the group that came in the interval of a point, and workers that Kafka may have given up.",
            "none",
            (growth("slotlog_group_rebalances_total", "instance"), _INSTANCE),
            (each("slotlog_group_lost", "instance"), f"lost {_INSTANCE}"),
        ),
    ]
