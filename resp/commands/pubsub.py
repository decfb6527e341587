"""SUBSCRIBE and its relatives, PUBLISH and PUBSUB."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.errors import CommandError
from engine.values.glob import matcher
from engine.values.replies import Reply
from resp.catalog.server_registry import Channels
from resp.commands.handlers import Client, server_command
from resp.messages.pubsub import Listeners, Subscriber
from resp.wire.server_replies import Push

if TYPE_CHECKING:
    from resp.cluster.bus import Bus
    from resp.cluster.topology import ClusterMap
    from resp.messages.pubsub import PubSub

_LISTEN: Final = ("pubsub", "noscript", "loading", "stale")
_PUBLISH: Final = ("pubsub", "loading", "stale", "fast")
_LOOK: Final = ("pubsub", "loading", "stale")
_SLOW: Final = ("pubsub", "slow")
_FAST: Final = ("pubsub", "fast")


class Messages(Protocol):
    """The subscriptions of a server's clients, and the way to other workers."""

    pubsub: PubSub
    bus: Bus
    clustered: bool
    cluster: ClusterMap

    def messages_of(self, session: Any) -> PubSub:
        """The subscriptions that a session may have."""
        ...


class ListeningClient(Subscriber, Client[Messages], Protocol):
    """A client that may listen.

    Attributes:
        in_exec: how many commands the EXEC has that runs, 0 for none.
    """

    in_exec: int

    def answer(self, reply: Reply) -> None:
        """Send it a reply to the command at hand."""
        ...

    def refresh(self) -> None:
        """Find out anew whether its commands may take the short way."""
        ...


_listening = partial(server_command, group="pubsub", flags=_LISTEN, categories=_SLOW, while_subscribed=True)


def _all_arguments(args: list[bytes]) -> list[bytes]:
    """Shard channels belong to slots as keys do."""
    return args


def _first_argument(args: list[bytes]) -> list[bytes]:
    """As `_all_arguments`, without the message."""
    return args[:1]


def _published_to(args: list[bytes]) -> Channels:
    return Channels(args[:1])


@_listening("SUBSCRIBE channel [channel ...]", since="2.0.0", complexity="O(channels named)", channels=Channels)
def subscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Listen to channels."""
    return _join(client, client.server.messages_of(client).channels, args)


@_listening(
    "PSUBSCRIBE pattern [pattern ...]",
    since="2.0.0",
    complexity="O(patterns named)",
    channels=partial(Channels, are_patterns=True),
)
def psubscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Listen to every channel whose name matches one of the patterns."""
    return _join(client, client.server.messages_of(client).patterns, args)


@_listening(
    "SSUBSCRIBE shardchannel [shardchannel ...]",
    since="7.0.0",
    complexity="O(channels named)",
    access="not_key",
    channels=Channels,
    keys=_all_arguments,
)
def ssubscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Listen to shard channels, which belong to slots as keys do."""
    if client.in_exec:
        raise CommandError("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
    return _join(client, client.server.messages_of(client).shard_channels, args)


@_listening("UNSUBSCRIBE [channel ...]", since="2.0.0", complexity="O(channels named)")
def unsubscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Stop listening to channels; to all of them when none is named."""
    return _leave(client, client.server.messages_of(client).channels, args)


@_listening("PUNSUBSCRIBE [pattern ...]", since="2.0.0", complexity="O(patterns named)")
def punsubscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Stop listening to patterns; to all of them when none is named."""
    return _leave(client, client.server.messages_of(client).patterns, args)


@_listening(
    "SUNSUBSCRIBE [shardchannel ...]",
    since="7.0.0",
    complexity="O(channels named)",
    access="not_key",
    keys=_all_arguments,
)
def sunsubscribe(client: ListeningClient, args: list[bytes]) -> Reply:
    """Stop listening to shard channels; to all of them when none is named."""
    return _leave(client, client.server.messages_of(client).shard_channels, args)


@server_command(
    "PUBLISH channel message",
    group="pubsub",
    since="2.0.0",
    complexity="O(subscribers of the channel + patterns of all clients)",
    flags=_PUBLISH,
    categories=_FAST,
    like_write=True,
    channels=_published_to,
)
def publish(client: Client[Messages], args: list[bytes]) -> Reply:
    """Send a message to a channel's subscribers on all workers. Returns how many this worker has."""
    server = client.server
    if server.clustered and (unknown := server.cluster.unknown):
        raise CommandError(
            f"ERR PUBLISH would not reach every worker: partition {unknown[0]} is not in SLOTLOG_REDIS__PEERS"
        )
    server.bus.publish(args[0], args[1])
    return server.pubsub.publish(args[0], args[1])


@server_command(
    "SPUBLISH shardchannel message",
    group="pubsub",
    since="7.0.0",
    complexity="O(subscribers of the channel)",
    flags=_PUBLISH,
    categories=_FAST,
    like_write=True,
    access="not_key",
    channels=_published_to,
    keys=_first_argument,
)
def spublish(client: Client[Messages], args: list[bytes]) -> Reply:
    """Send a message to the subscribers of a shard channel. Returns how many there are."""
    return client.server.pubsub.publish_to_shard(args[0], args[1])


@server_command(
    "PUBSUB CHANNELS [pattern]",
    group="pubsub",
    since="2.8.0",
    complexity="O(channels)",
    flags=_LOOK,
    categories=_SLOW,
    container=True,
)
def pubsub_channels(client: Client[Messages], args: list[bytes]) -> Reply:
    """Return the channels with subscribers, or those that match a pattern."""
    return _names(client.server.pubsub.channels, args, "CHANNELS")


@server_command("PUBSUB NUMPAT", group="pubsub", since="2.8.0", flags=_LOOK, categories=_SLOW, container=True)
def pubsub_numpat(client: Client[Messages], args: list[bytes]) -> Reply:
    """Return the number of patterns with subscribers."""
    return len(client.server.pubsub.patterns.by_name)


@server_command(
    "PUBSUB NUMSUB [channel ...]",
    group="pubsub",
    since="2.8.0",
    complexity="O(channels named)",
    flags=_LOOK,
    categories=_SLOW,
    container=True,
)
def pubsub_numsub(client: Client[Messages], args: list[bytes]) -> Reply:
    """Return the number of subscribers of each channel; patterns are not counted."""
    return _counts(client.server.pubsub.channels, args)


@server_command(
    "PUBSUB SHARDCHANNELS [pattern]",
    group="pubsub",
    since="7.0.0",
    complexity="O(channels)",
    flags=_LOOK,
    categories=_SLOW,
    container=True,
)
def pubsub_shardchannels(client: Client[Messages], args: list[bytes]) -> Reply:
    """Return the shard channels with subscribers, or those that match a pattern."""
    return _names(client.server.pubsub.shard_channels, args, "SHARDCHANNELS")


@server_command(
    "PUBSUB SHARDNUMSUB [shardchannel ...]",
    group="pubsub",
    since="7.0.0",
    complexity="O(channels named)",
    flags=_LOOK,
    categories=_SLOW,
    container=True,
)
def pubsub_shardnumsub(client: Client[Messages], args: list[bytes]) -> Reply:
    """Return the number of subscribers of each shard channel."""
    return _counts(client.server.pubsub.shard_channels, args)


def _join(client: ListeningClient, listeners: Listeners, names: list[bytes]) -> Reply:
    return _told(client, [listeners.add(client, name) for name in names])


def _leave(client: ListeningClient, listeners: Listeners, names: list[bytes]) -> Reply:
    if not names:
        return _told(client, listeners.remove_all(client))
    return _told(client, [listeners.remove(client, name) for name in names])


def _told(client: ListeningClient, replies: list[Push]) -> Reply:
    """One command, several replies: all but the last go out by themselves."""
    client.refresh()
    for reply in replies[:-1]:
        client.answer(reply)
    return replies[-1]


def _names(listeners: Listeners, args: list[bytes], subcommand: str) -> list[bytes]:
    if len(args) > 1:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try PUBSUB HELP.")
    if not args:
        return list(listeners.by_name)
    return list(filter(matcher(args[0]), listeners.by_name))


def _counts(listeners: Listeners, names: list[bytes]) -> list[bytes | int]:
    return [part for name in names for part in (name, len(listeners.by_name.get(name, ())))]
