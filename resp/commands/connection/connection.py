"""Commands about the connection. Source: https://redis.io/docs/latest/commands/?group=connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

from engine.commands.options import read_integer
from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Map, Reply, Status
from resp.acl import redaction
from resp.clients.running.multi import unwatch
from resp.commands.cluster.cluster import Cluster
from resp.commands.connection.auth import log_in
from resp.commands.connection.client import check_printable
from resp.commands.handlers import Client, server_command
from resp.reports.info import REDIS_VERSION
from resp.wire.server_replies import NO_REPLY
from slotlog.shared.limits import DATABASES

if TYPE_CHECKING:
    from resp.clients.session import Session

_INT_END: Final = 2**31
_CONNECTION: Final = ("connection", "fast")
_PONG: Final = Status(b"PONG")
_NOPROTO: Final = CommandError("NOPROTO unsupported protocol version")


class ConnectedClient(Client[Cluster], Protocol):
    """A client that looks after its connection.

    Attributes:
        db: the database that it has chosen.
        protocol: the version of RESP that it speaks.
    """

    db: int
    protocol: Literal[2, 3]

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to anything."""
        ...

    def answer(self, reply: Reply) -> None:
        """Send it a reply to the command at hand."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection after what was answered is sent."""
        ...


@server_command(
    "PING [message]",
    group="connection",
    since="1.0.0",
    flags=("fast",),
    categories=_CONNECTION,
    immediate=True,
    while_subscribed=True,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def ping(client: ConnectedClient, args: list[bytes]) -> Reply:
    """Return PONG, or the message."""
    if len(args) > 1:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    if client.protocol == 2 and client.is_subscriber:
        return [b"pong", args[0] if args else b""]
    return args[0] if args else _PONG


@server_command(
    "ECHO message",
    group="connection",
    since="1.0.0",
    flags=("loading", "stale", "fast"),
    categories=_CONNECTION,
    immediate=True,
)
def echo(client: object, args: list[bytes]) -> Reply:
    """Return the message."""
    return args[0]


@server_command(
    "QUIT [argument ...]",
    group="connection",
    since="1.0.0",
    flags=("allow_busy", "noscript", "loading", "stale", "fast", "no_auth"),
    categories=_CONNECTION,
    queued=False,
    while_subscribed=True,
)
def quit_(client: ConnectedClient, args: list[bytes]) -> Reply:
    """Return OK and close the connection."""
    client.answer(OK)
    client.close("QUIT")
    return NO_REPLY


@server_command(
    "RESET",
    group="connection",
    since="6.2.0",
    flags=("noscript", "loading", "stale", "fast", "no_auth", "allow_busy"),
    categories=_CONNECTION,
    queued=False,
    while_subscribed=True,
    shown_late=True,
)
def reset(session: Session, args: list[bytes]) -> Reply:
    """Reset the connection to its initial state."""
    server = session.server
    unwatch(session)
    session.transaction = None
    session.db = 0
    session.as_of = None
    session.name = b""
    if session.reply_mode == "off":  # after CLIENT REPLY SKIP this is what is left out, as in Redis
        session.muted = False
    session.reply_mode = "on"
    session.no_evict = session.no_touch = session.readonly = False
    server.messages_of(session).forget(session)
    server.monitors.forget(session)
    server.tracking.disable(session)
    session.user = server.acl.default_user
    session.authenticated = session.user.needs_no_password
    session.use_protocol(2)
    return Status(b"RESET")


@server_command(
    "SELECT index",
    group="connection",
    since="1.0.0",
    flags=("loading", "stale", "fast"),
    categories=_CONNECTION,
    immediate=True,
    as_event=lambda args: ([b"SELECT", *args], lambda reply: reply),
    databases=lambda args: args[:1],
    shown_late=True,
)
def select(client: ConnectedClient, args: list[bytes]) -> Reply:
    """Select another logical database; standalone only."""
    index = read_integer(args[0])
    if not -_INT_END <= index < _INT_END:
        raise CommandError(f"ERR value is out of range, value must between {-_INT_END} and {_INT_END - 1}")
    if client.server.clustered and index != 0:
        raise CommandError("ERR SELECT is not allowed in cluster mode")
    if not 0 <= index < DATABASES:
        raise CommandError("ERR DB index is out of range")
    client.db = index
    return OK


@server_command(
    "HELLO [protover [AUTH username password] [SETNAME clientname]]",
    group="connection",
    since="6.0.0",
    flags=("noscript", "loading", "stale", "fast", "no_auth", "allow_busy"),
    categories=_CONNECTION,
    redact=redaction.behind_auth,
)
def hello(session: Session, args: list[bytes]) -> Reply:
    """Choose RESP2 or RESP3, authenticate and set a name in one step. Returns facts about the server."""
    protocol = _read_protocol(args[0]) if args else None
    options, user = args[1:], None
    name: bytes | None = None
    while options:
        word = options[0].upper()
        if word == b"AUTH" and len(options) > 2:
            user = options[1], options[2]
            options = options[3:]
        elif word == b"SETNAME" and len(options) > 1:
            check_printable(options[1], "Client names")
            name, options = options[1], options[2:]
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{options[0].decode(errors='surrogateescape')}'")
    if user is not None:
        log_in(session, *user)
    if not session.authenticated:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            "same time"
        )
    if name is not None:
        session.name = name
    if protocol is not None:
        session.use_protocol(protocol)
    return Map(
        [
            (b"server", b"redis"),
            (b"version", REDIS_VERSION.encode()),
            (b"proto", session.protocol),
            (b"id", session.id),
            (b"mode", _mode(session)),
            (b"role", b"replica" if session.at_replica else b"master"),
            (b"modules", []),
        ]
    )


def _mode(session: Session) -> bytes:
    if session.at_sentinel:
        return b"sentinel"
    return b"cluster" if session.server.clustered else b"standalone"


def _read_protocol(text: bytes) -> Literal[2, 3]:
    number = parse_int(text)
    if number is None:
        raise CommandError("ERR Protocol version is not an integer or out of range")
    if number == 2:
        return 2
    if number == 3:
        return 3
    raise _NOPROTO
