"""CLIENT: commands about this connection and others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from engine.errors import NOT_AN_INTEGER, SYNTAX, CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Map, Reply, Set
from resp.catalog.server_registry import server_command
from resp.clients.client_list import filter_of, line_of
from resp.wire.server_replies import NO_REPLY, Verbatim
from slotlog.shared.limits import TIME_MS_MAX

if TYPE_CHECKING:
    from resp.clients.session import Session

_OWN: Final = ("noscript", "loading", "stale")
_ADMIN: Final = ("admin", "noscript", "loading", "stale")
_CONNECTION: Final = ("slow", "connection")
_DANGEROUS: Final = ("admin", "slow", "dangerous", "connection")
_PRINTABLE: Final = frozenset(range(ord("!"), ord("~") + 1))

_own_at_once = partial(
    server_command, group="connection", flags=_OWN, categories=_CONNECTION, immediate=True, container=True
)
_own = partial(server_command, group="connection", flags=_OWN, categories=_CONNECTION, container=True)
_admin = partial(server_command, group="connection", flags=_ADMIN, categories=_DANGEROUS, container=True)


# ---------------------------------------------------------------------- who I am


@_own_at_once("CLIENT ID", since="5.0.0")
def client_id(session: Session, args: list[bytes]) -> Reply:
    """Return the connection's number, which no other connection of this process has or will have."""
    return session.id


@_own("CLIENT INFO", since="6.2.0")
def client_info(session: Session, args: list[bytes]) -> Reply:
    """Return this client's line of CLIENT LIST."""
    return Verbatim(line_of(session) + b"\n")


@_own_at_once("CLIENT GETNAME", since="2.6.9")
def client_getname(session: Session, args: list[bytes]) -> Reply:
    """Return the connection's name, null when it has none."""
    return session.name or None


@_own_at_once("CLIENT SETNAME connection-name", since="2.6.9")
def client_setname(session: Session, args: list[bytes]) -> Reply:
    """Name the connection; an empty name is none."""
    check_printable(args[0], "Client names")
    session.name = args[0]
    return OK


@_own_at_once("CLIENT SETINFO <LIB-NAME|LIB-VER> value", since="7.2.0")
def client_setinfo(session: Session, args: list[bytes]) -> Reply:
    """Say which library the client uses, or which version of it."""
    option = args[0].decode(errors="surrogateescape")
    if option.upper() not in {"LIB-NAME", "LIB-VER"}:
        raise CommandError(f"ERR Unrecognized option '{option}'")
    check_printable(args[1], option)
    if option.upper() == "LIB-NAME":
        session.lib_name = args[1]
    else:
        session.lib_ver = args[1]
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
)
def client_reply(session: Session, args: list[bytes]) -> Reply:
    """Send no replies from now on, skip the next one only, or send them again."""
    word = args[0].upper()
    if word == b"ON":
        session.reply_mode = "on"
        session.muted = False
    elif word == b"OFF":
        session.reply_mode = "off"
    elif word == b"SKIP":
        session.reply_mode = "off" if session.reply_mode == "off" else "skip"
    else:
        raise CommandError(SYNTAX)
    session.refresh()
    return OK if word == b"ON" else NO_REPLY


@_admin("CLIENT NO-EVICT <ON|OFF>", since="7.0.0", immediate=True)
def client_no_evict(session: Session, args: list[bytes]) -> Reply:
    """Accepted and shown by CLIENT LIST: no client is ever cut off to make room for others."""
    session.no_evict = _is_on(args[0])
    return OK


@_own_at_once("CLIENT NO-TOUCH <ON|OFF>", since="7.2.0")
def client_no_touch(session: Session, args: list[bytes]) -> Reply:
    """Accepted and shown by CLIENT LIST: reads leave no trace here anyway."""
    session.no_touch = _is_on(args[0])
    return OK


@_own_at_once("CLIENT CAPA capability [capability ...]", since="8.0.0")
def client_capa(session: Session, args: list[bytes]) -> Reply:
    """Accepted, and without effect: nothing here depends on what a client can do."""
    return OK


@_own("CLIENT TRACKING <ON|OFF> [option ...]", since="6.0.0")
def client_tracking(session: Session, args: list[bytes]) -> Reply:
    """Refused but for OFF: no invalidation messages are sent."""
    if _is_on(args[0]):
        raise CommandError("ERR CLIENT TRACKING is not supported: no invalidation messages are sent")
    if len(args) > 1:
        raise CommandError(SYNTAX)
    return OK


@_own("CLIENT TRACKINGINFO", since="6.2.0")
def client_trackinginfo(session: Session, args: list[bytes]) -> Reply:
    """Say that tracking is off."""
    return Map([(b"flags", Set([b"off"])), (b"redirect", -1), (b"prefixes", [])])


@_own("CLIENT GETREDIR", since="6.0.0")
def client_getredir(session: Session, args: list[bytes]) -> Reply:
    """Say that tracking is off."""
    return -1


@_own("CLIENT CACHING <YES|NO>", since="6.0.0")
def client_caching(session: Session, args: list[bytes]) -> Reply:
    """Refused, since tracking is off."""
    raise CommandError(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
    )


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
def client_pause(session: Session, args: list[bytes]) -> Reply:
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
    session.server.pause.begin(timeout_ms, writes_only=mode == b"WRITE")
    return OK


@_admin("CLIENT UNPAUSE", since="6.2.0", complexity="O(paused clients)")
def client_unpause(session: Session, args: list[bytes]) -> Reply:
    """Let everything go on that CLIENT PAUSE keeps waiting."""
    session.server.pause.end()
    return OK


@_admin("CLIENT UNBLOCK client-id [TIMEOUT|ERROR]", since="5.0.0")
def client_unblock(session: Session, args: list[bytes]) -> Reply:
    """End the wait of a blocked client, as if its time were over or with an error; 0 when it did not wait."""
    reason = args[1].upper() if len(args) > 1 else b"TIMEOUT"
    if reason not in {b"TIMEOUT", b"ERROR"}:
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    number = parse_int(args[0])
    if number is None:
        raise CommandError(NOT_AN_INTEGER)
    other = session.server.sessions.get(number)
    return int(other is not None and session.server.blocked.unblock(other, error=reason == b"ERROR"))
