"""All server commands. Importing this package fills `resp.catalog.server_registry`."""

from __future__ import annotations

from resp.commands import (
    acl,
    auth,
    blocking,
    client,
    cluster,
    compat,
    config,
    connection,
    containers,
    debug,
    introspection,
    latency,
    monitor,
    multi_exec,
    peers,
    pubsub,
    server,
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
    "containers",
    "debug",
    "introspection",
    "latency",
    "monitor",
    "multi_exec",
    "peers",
    "pubsub",
    "server",
    "slotlog",
    "slowlog",
]

containers.add_help()
