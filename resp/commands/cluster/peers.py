"""Commands for other workers of the topic, in the order of `resp.cluster.bus.wire`.

A worker is a client that logs in as any other; the commands are dangerous ones, so that the ACL keeps them from users
who may not do everything. A message that came this way is never passed on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply, Status
from resp.catalog.server_registry import Channels
from resp.cluster.bus.wire import VERSION
from resp.commands.handlers import Client, server_command

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.messages.pubsub import PubSub
    from slotlog.log import Log

_NODE_ID_BYTES: Final = 40
_STRANGER: Final = CommandError("ERR SLOTLOG PEER-HELLO comes first")


class PeerServer(Protocol):
    """The part of a server that other workers ask for.

    Attributes:
        log: its topic is that of all workers.
        partitions: of the log, how many.
        run_id: of this process.
    """

    bus: Bus
    log: Log
    partitions: int
    pubsub: PubSub
    run_id: str


class Peer(Client[PeerServer], Protocol):
    """A client that may be another worker.

    Attributes:
        name: as CLIENT LIST shows it.
        peer: the id of the worker's node, once it has said PEER-HELLO.
    """

    name: bytes
    peer: bytes


_of_workers = partial(
    server_command,
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("admin", "noscript", "loading", "stale", "fast", "no_multi"),
    categories=("admin", "dangerous", "fast"),
    immediate=True,
    container=True,
)


@_of_workers("SLOTLOG PEER-HELLO version topic partitions node-id run-id")
def peer_hello(client: Peer, args: list[bytes]) -> Reply:
    """Say which worker this connection comes from; refused unless it has the same topic."""
    version, topic, partitions, node_id, run_id = args
    server = client.server
    if version != VERSION:
        raise CommandError(f"ERR this worker speaks version {VERSION.decode()} with others")
    if topic != server.log.topic.encode() or parse_int(partitions) != server.partitions:
        raise CommandError(f"ERR this worker's topic is {server.log.topic} with {server.partitions} partitions")
    if run_id == server.run_id.encode():
        raise CommandError("ERR this is the worker that calls: an address in SLOTLOG_REDIS__PEERS is its own")
    if len(node_id) != _NODE_ID_BYTES or not node_id.isalnum():
        raise CommandError("ERR that is no node's id")
    client.peer = node_id
    client.name = b"peer-" + node_id
    server.bus.called_by(node_id.decode())
    return OK


@_of_workers("SLOTLOG PEER-BEAT")
def peer_beat(client: Peer, args: list[bytes]) -> Reply:
    """Say how this worker is, as one line of JSON."""
    if not client.peer:
        raise _STRANGER
    bus = client.server.bus
    bus.answered += 1
    return Status(bus.peers.beat().pack())


@_of_workers("SLOTLOG PEER-PUBLISH channel message", complexity="as PUBLISH", channels=lambda args: Channels(args[:1]))
def peer_publish(client: Peer, args: list[bytes]) -> Reply:
    """Send another worker's message to this worker's listeners of a channel, and say how many copies went out."""
    if not client.peer:
        raise _STRANGER
    server = client.server
    server.bus.received += 1
    return server.pubsub.publish(args[0], args[1])
