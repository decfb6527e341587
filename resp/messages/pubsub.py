"""Subscriptions of this worker's clients, and delivery of messages to them.

    SUBSCRIBE -> channels      PSUBSCRIBE -> patterns      SSUBSCRIBE -> shard channels, a name space of their own

A message costs one reply for each client that hears it, and one match for each pattern that anybody has subscribed to.
Replies and messages are pushes: arrays in RESP2. Their words: https://valkey.io/topics/pubsub/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.values.glob import matcher
from engine.values.replies import Reply
from resp.catalog.server_registry import SERVER_SPECS
from resp.wire.server_replies import Push


def allowed_while_subscribed(name: bytes) -> bool:
    """Whether a RESP2 client that listens to something may send the command `name` (upper case)."""
    server = SERVER_SPECS.get(name)
    return server is not None and server.while_subscribed


def not_while_subscribed(shown_name: str) -> str:
    """The error text for any other command; `shown_name` is lower case, `client|list` for a subcommand."""
    return (
        f"ERR Can't execute '{shown_name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
        "are allowed in this context"
    )


class Subscriber(Protocol):
    """A client that may listen.

    Attributes:
        channels, patterns, shard_channels: the names that it listens to, in the order in which it asked for them.
    """

    channels: dict[bytes, None]
    patterns: dict[bytes, None]
    shard_channels: dict[bytes, None]

    def send(self, reply: Reply) -> None:
        """Send it a message, which answers no command."""
        ...


class Listeners:
    """The clients of each name, in the order in which they came.

    Args:
        joined, left: what SUBSCRIBE and UNSUBSCRIBE answer first, such as `subscribe` and `unsubscribe`.
        names_of: the session's own dict of names.
        count_of: how many subscriptions of the session the replies tell.
    """

    def __init__(
        self,
        joined: bytes,
        left: bytes,
        names_of: Callable[[Subscriber], dict[bytes, None]],
        count_of: Callable[[Subscriber], int],
    ) -> None:
        self.by_name: dict[bytes, dict[Subscriber, None]] = {}
        self._joined = joined
        self._left = left
        self._names_of = names_of
        self._count_of = count_of

    def add(self, session: Subscriber, name: bytes) -> Push:
        """Let the session hear `name`; a second time changes nothing.

        Returns:
            What the client is told: it is told each time.
        """
        self._names_of(session)[name] = None
        self.by_name.setdefault(name, {})[session] = None
        return Push([self._joined, name, self._count_of(session)])

    def remove(self, session: Subscriber, name: bytes) -> Push:
        """Let the session hear `name` no more; what it is told says the same when it did not."""
        if name in self._names_of(session):
            self._discard(session, name)
        return Push([self._left, name, self._count_of(session)])

    def remove_all(self, session: Subscriber) -> list[Push]:
        """Let the session hear nothing of this kind any more.

        Returns:
            One reply for each name, oldest first; one about no name when there was none.
        """
        replies = [self.remove(session, name) for name in list(self._names_of(session))]
        return replies or [Push([self._left, None, self._count_of(session)])]

    def forget(self, session: Subscriber) -> None:
        """The session is gone, or begins anew: it is told nothing."""
        for name in list(self._names_of(session)):
            self._discard(session, name)

    def _discard(self, session: Subscriber, name: bytes) -> None:
        del self._names_of(session)[name]
        sessions = self.by_name[name]
        del sessions[session]
        if not sessions:
            del self.by_name[name]


class PubSub:
    """All subscriptions of this worker's clients."""

    def __init__(self) -> None:
        self.channels = Listeners(b"subscribe", b"unsubscribe", lambda session: session.channels, _plain_count)
        self.patterns = Listeners(b"psubscribe", b"punsubscribe", lambda session: session.patterns, _plain_count)
        self.shard_channels = Listeners(
            b"ssubscribe",
            b"sunsubscribe",
            lambda session: session.shard_channels,
            lambda session: len(session.shard_channels),
        )
        self._matchers: dict[bytes, Callable[[bytes], bool]] = {}

    @property
    def is_heard(self) -> bool:
        """Whether a message on a plain channel could reach anybody."""
        return bool(self.channels.by_name or self.patterns.by_name)

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send `message` to the channel's listeners and to those of every pattern that matches it.

        Returns:
            How many copies went out: a client that hears it in two ways gets two.
        """
        sent = _send(self.channels.by_name.get(channel), Push([b"message", channel, message]))
        for pattern, sessions in self.patterns.by_name.items():
            if self._matcher(pattern)(channel):
                sent += _send(sessions, Push([b"pmessage", pattern, channel, message]))
        return sent

    def publish_to_shard(self, channel: bytes, message: bytes) -> int:
        """Send `message` to the listeners of a shard channel; returns how many they are."""
        return _send(self.shard_channels.by_name.get(channel), Push([b"smessage", channel, message]))

    def forget(self, session: Subscriber) -> None:
        """Drop all subscriptions of a session that is gone, or that was RESET."""
        self.channels.forget(session)
        self.patterns.forget(session)
        self.shard_channels.forget(session)

    def _matcher(self, pattern: bytes) -> Callable[[bytes], bool]:
        matches = self._matchers.get(pattern)
        if matches is None:
            if len(self._matchers) > 2 * len(self.patterns.by_name):  # most of them are nobody's any more
                self._matchers.clear()
            matches = self._matchers[pattern] = matcher(pattern)
        return matches


def _plain_count(session: Subscriber) -> int:
    return len(session.channels) + len(session.patterns)


def _send(sessions: dict[Subscriber, None] | None, message: Push) -> int:
    if not sessions:
        return 0
    for session in list(sessions):  # a client that is cut off for its slowness leaves the dict meanwhile
        session.send(message)
    return len(sessions)
