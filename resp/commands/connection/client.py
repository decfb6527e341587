"""CLIENT: commands about this connection and others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from engine.commands.options import read_integer
from engine.errors import SYNTAX, CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply, Verbatim
from resp.clients.client_list import filter_of, line_of
from resp.commands.handlers import Client, server_command
from resp.wire.server_replies import NO_REPLY
from slotlog.shared.limits import TIME_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resp.blocking.blocked_clients import Blocked
    from resp.blocking.pause import Pause
    from resp.blocking.waiters import BlockingClient
    from resp.clients.session import Session

_OWN: Final = ("noscript", "loading", "stale")
_ADMIN: Final = ("admin", "noscript", "loading", "stale")
_CONNECTION: Final = ("slow", "connection")
_DANGEROUS: Final = ("admin", "slow", "dangerous", "connection")
_PRINTABLE: Final = frozenset(range(ord("!"), ord("~") + 1))


class OwnClient(Protocol):
    """The client that sent a command, as far as CLIENT shows and changes it.

    Attributes:
        name, lib_name, lib_ver: as CLIENT LIST shows them.
        no_evict, no_touch: CLIENT NO-EVICT, CLIENT NO-TOUCH.
        reply_mode: CLIENT REPLY.
        muted: the reply to the command at hand is left out.
    """

    id: int
    name: bytes
    lib_name: bytes
    lib_ver: bytes
    no_evict: bool
    no_touch: bool
    reply_mode: Literal["on", "off", "skip"]
    muted: bool

    def refresh(self) -> None:
        """Find out anew whether its commands may take the short way."""
        ...


class Waits(Protocol):
    """For what clients of a server wait."""

    pause: Pause
    blocked: Blocked

    @property
    def sessions(self) -> Mapping[int, BlockingClient]:
        """Connected clients by id."""
        ...


_own_at_once = partial(
    server_command, group="connection", flags=_OWN, categories=_CONNECTION, immediate=True, container=True
)
_own = partial(server_command, group="connection", flags=_OWN, categories=_CONNECTION, container=True)
_admin = partial(server_command, group="connection", flags=_ADMIN, categories=_DANGEROUS, container=True)


# ---------------------------------------------------------------------- who I am


@_own_at_once("CLIENT ID", since="5.0.0")
def client_id(client: OwnClient, args: list[bytes]) -> Reply:
    """Return the connection's number, which no other connection of this process has or will have."""
    return client.id


@_own("CLIENT INFO", since="6.2.0")
def client_info(session: Session, args: list[bytes]) -> Reply:
    """Return this client's line of CLIENT LIST."""
    return Verbatim(line_of(session) + b"\n")


@_own_at_once("CLIENT GETNAME", since="2.6.9")
def client_getname(client: OwnClient, args: list[bytes]) -> Reply:
    """Return the connection's name, null when it has none."""
    return client.name or None


@_own_at_once("CLIENT SETNAME connection-name", since="2.6.9")
def client_setname(client: OwnClient, args: list[bytes]) -> Reply:
    """Name the connection; an empty name is none."""
    check_printable(args[0], "Client names")
    client.name = args[0]
    return OK


@_own_at_once("CLIENT SETINFO <LIB-NAME|LIB-VER> value", since="7.2.0")
def client_setinfo(client: OwnClient, args: list[bytes]) -> Reply:
    """Say which library the client uses, or which version of it."""
    option = args[0].decode(errors="surrogateescape")
    if option.upper() not in {"LIB-NAME", "LIB-VER"}:
        raise CommandError(f"ERR Unrecognized option '{option}'")
    check_printable(args[1], option)
    if option.upper() == "LIB-NAME":
        client.lib_name = args[1]
    else:
        client.lib_ver = args[1]
    return OK


def check_printable(text: bytes, what: str) -> None:
    """Refuse a name that could not stand in CLIENT LIST.

    Raises:
        CommandError: with Redis' text.
    """
    if not _PRINTABLE.issuperset(text):
        raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")


# ---------------------------------------------------------------------- how I am treated


@server_command(
    "CLIENT REPLY <ON|OFF|SKIP>",
    group="connection",
    since="3.2.0",
    flags=(*_OWN, "no_multi"),
    categories=_CONNECTION,
    container=True,
    shown_late=True,
)
def client_reply(client: OwnClient, args: list[bytes]) -> Reply:
    """Send no replies from now on, skip the next one only, or send them again."""
    word = args[0].upper()
    if word == b"ON":
        client.reply_mode = "on"
        client.muted = False
    elif word == b"OFF":
        client.reply_mode = "off"
    elif word == b"SKIP":
        client.reply_mode = "off" if client.reply_mode == "off" else "skip"
    else:
        raise CommandError(SYNTAX)
    client.refresh()
    return OK if word == b"ON" else NO_REPLY


@_admin("CLIENT NO-EVICT <ON|OFF>", since="7.0.0", immediate=True)
def client_no_evict(client: OwnClient, args: list[bytes]) -> Reply:
    """Accepted and shown by CLIENT LIST: no client is ever cut off to make room for others."""
    client.no_evict = _is_on(args[0])
    return OK


@_own_at_once("CLIENT NO-TOUCH <ON|OFF>", since="7.2.0")
def client_no_touch(client: OwnClient, args: list[bytes]) -> Reply:
    """Accepted and shown by CLIENT LIST: reads leave no trace here anyway."""
    client.no_touch = _is_on(args[0])
    return OK


@_own_at_once("CLIENT CAPA capability [capability ...]", since="8.0.0")
def client_capa(client: object, args: list[bytes]) -> Reply:
    """Accepted, and without effect: nothing here depends on what a client can do."""
    return OK


def _is_on(word: bytes) -> bool:
    if word.upper() not in {b"ON", b"OFF"}:
        raise CommandError(SYNTAX)
    return word.upper() == b"ON"


# ---------------------------------------------------------------------- all clients


@_admin("CLIENT LIST [option value ...]", since="2.4.0", complexity="O(clients)")
def client_list(session: Session, args: list[bytes]) -> Reply:
    """Return a line for each client, or for those that fit the filters, such as TYPE pubsub or NOT-USER default."""
    fits = filter_of(session.server, session, args)
    lines = [line_of(other) + b"\n" for other in session.server.sessions.values() if fits(other)]
    return Verbatim(b"".join(lines))


@_admin("CLIENT KILL <address|filter> [value ...]", since="2.4.0", complexity="O(clients)")
def client_kill(session: Session, args: list[bytes]) -> Reply:
    """Close the connection of one address, or those that fit the filters of CLIENT LIST, but not one's own."""
    sessions = list(session.server.sessions.values())
    if len(args) == 1:
        meant = [other for other in sessions if other.address == args[0]]
        if not meant:
            raise CommandError("ERR No such client")
        return _kill(session, meant, OK)
    fits = filter_of(session.server, session, args, skip_me=True)
    meant = [other for other in sessions if fits(other)]
    return _kill(session, meant, len(meant))


def _kill(session: Session, meant: list[Session], reply: Reply) -> Reply:
    """Close these connections; if the client's own is one of them, after the reply."""
    for other in meant:
        if other is not session:
            other.kill()
    if session not in meant:
        return reply
    session.answer(reply)
    session.close("CLIENT KILL")
    return NO_REPLY


@_admin("CLIENT PAUSE timeout [WRITE|ALL]", since="3.0.0")
def client_pause(client: Client[Waits], args: list[bytes]) -> Reply:
    """Let the writes of all clients, or all their commands, wait for so many milliseconds."""
    mode = args[1].upper() if len(args) > 1 else b"ALL"
    if mode not in {b"WRITE", b"ALL"}:
        raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
    timeout_ms = parse_int(args[0])
    if timeout_ms is None:
        raise CommandError("ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    if timeout_ms > TIME_MS_MAX:
        raise CommandError("ERR timeout is out of range")
    client.server.pause.begin(timeout_ms, writes_only=mode == b"WRITE")
    return OK


@_admin("CLIENT UNPAUSE", since="6.2.0", complexity="O(paused clients)")
def client_unpause(client: Client[Waits], args: list[bytes]) -> Reply:
    """Let everything go on that CLIENT PAUSE keeps waiting."""
    client.server.pause.end()
    return OK


@_admin("CLIENT UNBLOCK client-id [TIMEOUT|ERROR]", since="5.0.0")
def client_unblock(client: Client[Waits], args: list[bytes]) -> Reply:
    """End the wait of a blocked client, as if its time were over or with an error; 0 when it did not wait."""
    reason = args[1].upper() if len(args) > 1 else b"TIMEOUT"
    if reason not in {b"TIMEOUT", b"ERROR"}:
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    number = read_integer(args[0])
    other = client.server.sessions.get(number)
    return int(other is not None and client.server.blocked.unblock(other, error=reason == b"ERROR"))
