"""All server commands. Importing this package fills `resp.catalog.server_registry`."""

from __future__ import annotations

from resp.commands import blocking, containers, multi_exec, pubsub, streams
from resp.commands.cluster import cluster, peers, sentinel
from resp.commands.connection import auth, client, connection, tracking
from resp.commands.server import (
    acl,
    compat,
    config,
    debug,
    introspection,
    latency,
    monitor,
    past,
    process,
    running_scripts,
    slotlog,
    slowlog,
)

__all__ = [
    "acl",
    "auth",
    "blocking",
    "client",
    "cluster",
    "compat",
    "config",
    "connection",
    "debug",
    "introspection",
    "latency",
    "monitor",
    "multi_exec",
    "past",
    "peers",
    "process",
    "pubsub",
    "running_scripts",
    "sentinel",
    "slotlog",
    "slowlog",
    "streams",
    "tracking",
]

containers.add_help()
