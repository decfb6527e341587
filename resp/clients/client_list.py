"""CLIENT LIST's line for a client, and the filters by which CLIENT LIST and CLIENT KILL choose clients.

Fields, their order and the error texts are Redis 7.4's: https://redis.io/docs/latest/commands/client-list/; the last
three fields are those of Redis 8, and further filters those of Valkey 9.1. What only Redis' way to hold replies has
(rbs, …) is there and 0, as tools look fields up by name.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from engine.errors import SYNTAX, CommandError
from engine.values.numbers import parse_int
from resp.clients.output import FREE_BYTES
from slotlog.shared.limits import DATABASES

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.clients.shared import Shared

SESSION_BYTES: Final = 6 * 1024
"""What one idle client takes in memory, measured: session, parser, transport, socket and their place in the loop."""

Filter = Callable[["Session"], bool]
"""Whether a client is one of those that are meant."""

_MakeFilter = Callable[["Shared[Session]", str, bytes], Filter]
"""(server, the option in upper case, its value) -> filter."""

_NO_ID: Final = CommandError("ERR Invalid client ID")
_NO_ID_TO_KILL: Final = CommandError("ERR client-id should be greater than 0")
_KNOWN_FLAGS: Final = frozenset(b"OSMPxbtRBdcuAUreTIN")
_KNOWN_CAPABILITIES: Final = frozenset(b"r")
_TYPES: Final = {
    b"normal": "normal",
    b"pubsub": "pubsub",
    **dict.fromkeys((b"replica", b"slave"), "replica"),
    **dict.fromkeys((b"primary", b"master"), "primary"),
}


def flags_of(session: Session) -> bytes:
    """What the client does just now, in letters; `N` for nothing special."""
    tracker = session.tracking
    states = (
        (session.monitoring, b"O"),
        (session.is_subscriber, b"P"),
        (session.transaction is not None or session.in_exec > 0, b"x"),
        (is_blocked(session), b"b"),
        (tracker is not None, b"t"),
        (tracker is not None and tracker.broken, b"R"),
        (tracker is not None and tracker.options.bcast, b"B"),
        (session.closing, b"c"),
        (session.readonly, b"r"),
        (session.no_evict, b"e"),
        (session.no_touch, b"T"),
    )
    return b"".join(letter for is_so, letter in states if is_so) or b"N"


def is_blocked(session: Session) -> bool:
    """Whether it waits: for an element, for replicas, or for the end of CLIENT PAUSE."""
    return session.waits or session.server.pause.keeps(session)


def has_time_limit(session: Session) -> bool:
    """Whether it waits, and not for ever: for elements, or for replicas (WAIT answers at once where it would be)."""
    return session.waits and (session.blocked is None or session.blocked.timeout_s > 0)


def command_bytes(session: Session) -> int:
    """Of whole commands: the one that is being answered, or waits, and those behind it."""
    return sum(map(len, session.served_command)) + session.inbox.backlog_bytes


def total_bytes(session: Session) -> int:
    """What the client takes here: itself, what it has sent, and what it is to be sent."""
    queued = 0 if session.transaction is None else session.transaction.size
    return SESSION_BYTES + session.query_bytes + command_bytes(session) + queued + session.output_bytes


def type_of(session: Session) -> str:
    """`pubsub` or `normal`; there are no other clients here."""
    return "pubsub" if session.is_subscriber else "normal"


def line_of(session: Session) -> bytes:
    """The client's line, without its end."""
    now = monotonic()
    queue, parser = session.transaction, session.parser
    output_bytes = session.output_bytes
    fields = (
        (b"id", session.id),
        (b"addr", session.address),
        (b"laddr", session.local_address),
        (b"fd", session.fd),
        (b"name", session.name),
        (b"age", int(now - session.created)),
        (b"idle", int(now - session.last_active)),
        (b"flags", flags_of(session)),
        (b"db", session.db),
        (b"sub", len(session.channels)),
        (b"psub", len(session.patterns)),
        (b"ssub", len(session.shard_channels)),
        (b"multi", (session.in_exec or -1) if queue is None else len(queue.steps)),
        (b"watch", len(session.watched_keys)),
        (b"qbuf", session.query_bytes - parser.argument_bytes),
        (b"qbuf-free", parser.free_bytes),
        (b"argv-mem", command_bytes(session) + parser.argument_bytes),
        (b"multi-mem", 0 if queue is None else queue.size),
        (b"rbs", 0),
        (b"rbp", 0),
        (b"obl", min(output_bytes, FREE_BYTES)),
        (b"oll", 0),
        (b"omem", max(0, output_bytes - FREE_BYTES)),
        (b"tot-mem", total_bytes(session)),
        (b"events", b"rw" if session.transport.get_write_buffer_size() else b"r"),
        (b"cmd", session.last_command.lower() or b"NULL"),
        (b"user", session.user.name),
        (b"redir", -1 if session.tracking is None else session.tracking.options.redirect),
        (b"resp", session.protocol),
        (b"lib-name", session.lib_name),
        (b"lib-ver", session.lib_ver),
        (b"tot-net-in", session.received_bytes),
        (b"tot-net-out", session.output.sent_bytes),
        (b"tot-cmds", session.received_commands),
    )
    return b" ".join(name + b"=" + (value if isinstance(value, bytes) else b"%d" % value) for name, value in fields)


def filter_of(server: Shared[Session], me: Session, args: list[bytes], *, skip_me: bool = False) -> Filter:
    """The filter that `args`, such as `TYPE pubsub NOT-ID 3 4`, stand for: all of them have to fit.

    Args:
        server: whose users they are.
        me: who asks.
        args: options and values.
        skip_me: leave out who asks, unless SKIPME says otherwise.

    Raises:
        CommandError: no such filter, or a value that cannot be.
    """
    filters: dict[bytes, Filter] = {}
    at = 0
    while at < len(args):
        option = args[at].upper()
        if at + 1 == len(args):
            raise CommandError(SYNTAX)
        if option in {b"ID", b"NOT-ID"}:
            ids, at = _ids(args, at + 1, _NO_ID if option == b"ID" and not skip_me else _NO_ID_TO_KILL)
            chosen: Filter = lambda session, ids=ids: session.id in ids  # type: ignore[misc]  # noqa: E731
        elif option == b"SKIPME":
            skip_me = _yes_or_no(args[at + 1])
            at += 2
            continue
        else:
            chosen = _one_filter(server, args[at], args[at + 1])
            at += 2
        filters[option] = _negated(chosen) if option.startswith(b"NOT-") else chosen
    if skip_me:
        filters[b"SKIPME"] = lambda session: session is not me
    return lambda session: all(fits(session) for fits in filters.values())


def _negated(fits: Filter) -> Filter:
    return lambda session: not fits(session)


def _ids(args: list[bytes], at: int, refusal: CommandError) -> tuple[frozenset[int], int]:
    """The ids from `at` on, and where the next option is."""
    ids = []
    while at < len(args) and (number := parse_int(args[at])) is not None:
        if number <= 0 and refusal is _NO_ID_TO_KILL:
            raise refusal
        ids.append(number)
        at += 1
    if not ids:
        raise refusal
    return frozenset(ids), at


def _yes_or_no(word: bytes) -> bool:
    if word.lower() not in {b"yes", b"no"}:
        raise CommandError(SYNTAX)
    return word.lower() == b"yes"


def _one_filter(server: Shared[Session], option: bytes, value: bytes) -> Filter:
    """The filter of one option with one value."""
    name = option.upper()
    if name in {b"MAXAGE", b"IDLE"}:
        return _seconds_filter(option, value)
    make = _FILTERS.get(name.removeprefix(b"NOT-"))
    if make is None:
        raise CommandError(SYNTAX)
    return make(server, option.decode().upper(), value)


def _seconds_filter(option: bytes, value: bytes) -> Filter:
    shown = option.decode().lower()
    seconds = parse_int(value)
    if seconds is None:
        raise CommandError(f"ERR {shown} is not an integer or out of range")
    if seconds <= 0:
        raise CommandError(f"ERR {shown} should be greater than 0")
    if shown == "idle":
        return lambda session: monotonic() - session.last_active >= seconds
    return lambda session: monotonic() - session.created >= seconds


def _type_filter(_server: Shared[Session], _option: str, value: bytes) -> Filter:
    wanted = _TYPES.get(value.lower())
    if wanted is None:
        raise CommandError(f"ERR Unknown client type '{_shown(value)}'")
    return lambda session: type_of(session) == wanted


def _user_filter(server: Shared[Session], _option: str, value: bytes) -> Filter:
    if value not in server.acl.users:
        raise CommandError(f"ERR No such user '{_shown(value)}'")
    return lambda session: session.user.name == value


def _db_filter(_server: Shared[Session], option: str, value: bytes) -> Filter:
    db = parse_int(value)
    if db is None:
        raise CommandError(f"ERR {option} is not an integer or out of range")
    if not 0 <= db < DATABASES:
        raise CommandError(f"ERR {option} number should be between 0 and {DATABASES - 1}")
    return lambda session: session.db == db


def _flags_filter(_server: Shared[Session], option: str, value: bytes) -> Filter:
    if not _KNOWN_FLAGS.issuperset(value):
        raise CommandError(f"ERR Unknown flags found in the {_where(option)} filter: {_shown(value)}")
    return lambda session: set(flags_of(session)).issuperset(value)


def _capability_filter(_server: Shared[Session], option: str, value: bytes) -> Filter:
    if not _KNOWN_CAPABILITIES.issuperset(value):
        raise CommandError(f"ERR Unknown capa found in the {_where(option)} filter: {_shown(value)}")
    return lambda session: not value  # no client has any here


def _ip_filter(_server: Shared[Session], _option: str, value: bytes) -> Filter:
    return lambda session: session.address.rpartition(b":")[0] == value


def _text_filter(attribute: str) -> _MakeFilter:
    """Clients that have this text; an empty one is none."""

    def make(_server: Shared[Session], _option: str, value: bytes) -> Filter:
        return lambda session: value != b"" and getattr(session, attribute) == value

    return make


_FILTERS: Final[dict[bytes, _MakeFilter]] = {
    b"TYPE": _type_filter,
    b"USER": _user_filter,
    b"DB": _db_filter,
    b"FLAGS": _flags_filter,
    b"CAPA": _capability_filter,
    b"IP": _ip_filter,
    b"ADDR": _text_filter("address"),
    b"LADDR": _text_filter("local_address"),
    b"NAME": _text_filter("name"),
    b"LIB-NAME": _text_filter("lib_name"),
    b"LIB-VER": _text_filter("lib_ver"),
}
"""By the option's name. All of them exist with NOT- as well."""


def _where(option: str) -> str:
    return option if option.startswith("NOT-") else "provided"


def _shown(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
