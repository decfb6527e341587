"""CLIENT TRACKING and its relatives. Source: https://redis.io/docs/latest/develop/clients/client-side-caching/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.commands.options import read_integer
from engine.errors import SYNTAX, CommandError
from engine.values.replies import OK, Map, Reply, Set
from resp.commands.handlers import server_command
from resp.messages.tracker import Options, check

if TYPE_CHECKING:
    from collections.abc import Container

    from resp.clients.session import Session

_MODES: Final = (b"BCAST", b"OPTIN", b"OPTOUT", b"NOLOOP")
_FLAGS: Final = ("noscript", "loading", "stale")
_CATEGORIES: Final = ("slow", "connection")


@server_command(
    "CLIENT TRACKING <ON|OFF> [option ...]",
    group="connection",
    since="6.0.0",
    flags=_FLAGS,
    categories=_CATEGORIES,
    container=True,
)
def client_tracking(session: Session, args: list[bytes]) -> Reply:
    """Be told when keys change that the client has read, or that have a prefix; BCAST, OPTIN, NOLOOP and others."""
    tracking = session.server.tracking
    options = _options(args[1:], session.server.sessions)
    word = args[0].upper()
    if word == b"ON":
        if session.server.is_standby:
            raise CommandError("ERR a standby does not tell what to invalidate: have the reads at the master tracked")
        check(options, session.tracking)
        tracking.enable(session, options)
    elif word == b"OFF":
        tracking.disable(session)
    else:
        raise CommandError(SYNTAX)
    session.refresh()
    return OK


def _options(words: list[bytes], clients: Container[int]) -> Options:
    """The options behind ON or OFF; each is checked in its turn, as in Redis."""
    redirect, prefixes, modes, left = 0, list[bytes](), dict[bytes, None](), iter(words)
    for word in left:
        name = word.upper()
        if name in _MODES:
            modes[name] = None
            continue
        value = next(left, None)
        if value is None or name not in {b"REDIRECT", b"PREFIX"}:
            raise CommandError(SYNTAX)
        if name == b"PREFIX":
            prefixes.append(value)
        elif redirect:
            raise CommandError("ERR A client can only redirect to a single other client")
        else:
            redirect = _number(value, clients)
    bcast, optin, optout, noloop = (mode in modes for mode in _MODES)
    return Options(redirect, bcast, optin, optout, noloop, tuple(prefixes))


def _number(text: bytes, clients: Container[int]) -> int:
    number = read_integer(text)
    if number not in clients:
        raise CommandError("ERR The client ID you want redirect to does not exist")
    return number


@server_command(
    "CLIENT CACHING <YES|NO>",
    group="connection",
    since="6.0.0",
    flags=_FLAGS,
    categories=_CATEGORIES,
    immediate=True,
    container=True,
)
def client_caching(session: Session, args: list[bytes]) -> Reply:
    """Have the keys of the next command tracked (OPTIN), or not (OPTOUT); a MULTI counts up to its EXEC."""
    tracker, word = session.tracking, args[0].upper()
    if tracker is None:
        raise CommandError(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
            "enabled"
        )
    if word not in {b"YES", b"NO"}:
        raise CommandError(SYNTAX)
    mode = "OPTIN" if word == b"YES" else "OPTOUT"
    if not (tracker.options.optin if word == b"YES" else tracker.options.optout):
        raise CommandError(f"ERR CLIENT CACHING {word.decode()} is only valid when tracking is enabled in {mode} mode.")
    tracker.caching = True
    return OK


@server_command(
    "CLIENT TRACKINGINFO", group="connection", since="6.2.0", flags=_FLAGS, categories=_CATEGORIES, container=True
)
def client_trackinginfo(session: Session, args: list[bytes]) -> Reply:
    """Return how this client tracks keys: flags, the client that is told in its place, prefixes."""
    tracker = session.tracking
    if tracker is None:
        return Map([(b"flags", Set([b"off"])), (b"redirect", -1), (b"prefixes", [])])
    return Map(
        [
            (b"flags", Set(tracker.flags())),
            (b"redirect", tracker.options.redirect),
            (b"prefixes", sorted(tracker.prefixes)),
        ]
    )


@server_command(
    "CLIENT GETREDIR", group="connection", since="6.0.0", flags=_FLAGS, categories=_CATEGORIES, container=True
)
def client_getredir(session: Session, args: list[bytes]) -> Reply:
    """Return the number of the client that is told in this one's place: 0 for itself, -1 when tracking is off."""
    return -1 if session.tracking is None else session.tracking.options.redirect
