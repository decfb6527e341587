"""Every command of the server. Importing this package fills `ingest.resp.registry`."""

from __future__ import annotations

from ingest.resp.commands import (
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
    peers,
    pubsub,
    server,
    slotlog,
    slowlog,
    transactions,
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
    "peers",
    "pubsub",
    "server",
    "slotlog",
    "slowlog",
    "transactions",
]

containers.add_help()
