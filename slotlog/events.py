"""The event: msgpack bytes <-> the plain tuple that `Machine.apply` takes.

    value   = map {
        "v":       1                                  schema version
        "cmd":     str | bin, not empty               command name, any case
        "args":    array of str | bin | int | float   ints and floats become the bytes that Redis would print
                   EXEC: array of arrays, [[name, arg, …], …]
        "id":      str | bin of 1 … 64 bytes          optional: idempotency key
        "db":      int 0 … 15                         optional: logical database
        "session": bin of 16                          optional: the connection, for WATCH and its EXEC
        "meta":    map                                optional: carried, not interpreted
    }
    key     = the slot of the event's keys, 2 bytes big-endian; absent for a keyless event

Anything else is refused with a reason: another field, a field given twice, nil for an optional one; bool, nil, NaN,
ext, array or map among the arguments; bytes after the map. The bounds of `slotlog.shared.limits` are held on the
headers of msgpack, before anything is built from them. The time is the record's, not the event's: `Machine` judges it.

Example: {"v": 1, "cmd": "SET", "args": ["k", 5]} = 83 a1 76 01 a3 63 6d 64 a3 53 45 54 a4 61 72 67 73 92 a1 6b 05
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgpack import UnpackException, packb, unpackb

from slotlog.commands import COMMANDS
from slotlog.shared.doubles import format_double
from slotlog.shared.errors import EventError
from slotlog.shared.limits import ARGUMENTS_MAX, DATABASES, ID_BYTES_MAX, NESTING_MAX, RECORD_BYTES_MAX, SESSION_BYTES

Event: TypeAlias = tuple[int, int, bytes, list[Any], int, bytes | None, bytes | None]
"""(offset, time_ms, name, arguments, database, id, session): what a machine applies (`engine.apply.records.Record`)."""

VERSION: Final = 1

Fields: TypeAlias = dict[bytes, Any]
"""An event as msgpack gives it, whatever its producer has put there."""

UPCASTERS: Final[dict[int, Callable[[Fields], Fields]]] = {}
"""By version of the schema: what makes the fields of an event of that version those of the next one.

The log keeps events for ever, so the versions before `VERSION` stay readable: a new version comes with the upcaster of
the one before it, and what is behind `decode` knows the newest alone. An upcaster raises EventError for what is no
event of its version, fields that it does not know among it. A version that some release did not know was a dead letter
there, and has to stay one at every replay: it comes with new rules (`engine/tables/system.py`).
"""

_FIELDS: Final = frozenset({b"v", b"cmd", b"args", b"id", b"db", b"session", b"meta"})

# A smaller record cannot blow up: the worst, 340 nested array headers that each claim all of it, takes 3 MB for a
# moment. Larger ones have their headers walked before anything is built, at 0.1 µs a header.
WALKED_ABOVE_BYTES: Final = 1024

_TOO_DEEP: Final = f"arrays and maps nested deeper than {NESTING_MAX}"
_NO_MAP: Final = "the value is not a map"
_CUT_SHORT: Final = "the value is not msgpack: it is cut short"
_KINDS: Final = {bool: "a bool", type(None): "nil", list: "an array", dict: "a map"}
_MAP_16: Final = 0xDE
_MAP_32: Final = 0xDF


def _whole_sizes() -> tuple[int, ...]:
    """By first byte: how many bytes the whole value has, where that byte alone says it; else 0."""
    sizes = [1] * 256  # positive and negative fixint, nil, false, true; 0xc1 is no type, which unpackb refuses
    sizes[0x80:0xA0] = [0] * 32  # fixmap, fixarray
    sizes[0xA0:0xC0] = range(1, 33)  # fixstr
    sizes[0xC4:0xCA] = [0] * 6  # bin, ext
    sizes[0xCA:0xD4] = (5, 9, 2, 3, 5, 9, 2, 3, 5, 9)  # float 32, 64; uint 8 … 64; int 8 … 64
    sizes[0xD4:0xD9] = (3, 4, 6, 10, 18)  # fixext 1 … 16, type byte included
    sizes[0xD9:0xE0] = [0] * 7  # str, array, map
    return tuple(sizes)


_WHOLE: Final = _whole_sizes()

_SHORT: Final = (0xC4, 0xD9)  # bin 8, str 8

# By first byte: (bytes of the length, bytes between it and the content, values per element; 0 = the content is bytes).
_HEADERS: Final = {
    **dict.fromkeys(range(0x80, 0x90), (0, 0, 2)),  # fixmap
    **dict.fromkeys(range(0x90, 0xA0), (0, 0, 1)),  # fixarray
    **{0xC4 + power: (1 << power, 0, 0) for power in range(3)},  # bin 8, 16, 32
    **{0xC7 + power: (1 << power, 1, 0) for power in range(3)},  # ext: a type byte before the content
    **{0xD9 + power: (1 << power, 0, 0) for power in range(3)},  # str
    **{0xDC + power: (2 << power, 0, 1) for power in range(2)},  # array 16, 32
    **{0xDE + power: (2 << power, 0, 2) for power in range(2)},  # map 16, 32
}


def encode(
    cmd: str | bytes,
    args: Sequence[Any],
    *,
    id: str | bytes | None = None,  # noqa: A002 - the field's name in the event
    db: int = 0,
    session: bytes | None = None,
    meta: Mapping[str, Any] | None = None,
) -> bytes:
    """The bytes of an event. They are judged by `decode`, on either side of the log.

    Raises:
        EventError: a value that msgpack cannot hold, such as an integer beyond 64 bits.
    """
    event: dict[str, Any] = {"v": VERSION, "cmd": cmd, "args": args}
    if id is not None:
        event["id"] = id
    if db:
        event["db"] = db
    if session is not None:
        event["session"] = session
    if meta is not None:
        event["meta"] = meta
    try:
        value: bytes = packb(event)
    except (TypeError, ValueError, OverflowError) as error:
        raise EventError(f"cannot be written as msgpack: {error}") from error
    return value


def event_head(cmd: bytes) -> bytes:
    """What every event of a command begins with that has no optional field; the packed array of its arguments follows.

    For a server that writes the same few commands all the time: measured, `encode` takes 0.9 µs, this way 0.35.
    """
    whole = encode(cmd.decode(), [])
    return whole[:-1]


_EXEC: Final = b"EXEC"

NAMES_BY_HEAD: Final = {event_head(spelled): name for name in (*COMMANDS, _EXEC) for spelled in (name, name.lower())}
"""The name of a command by the head of its commonest event."""

_NAME_AT: Final = 8  # of a head: the header of its name, which says how long that is
_HEAD_LESS: Final = 0xA0 - 9 - len(b"\xa4args")  # that header, less this: how long the head is


_NAMES_BY_HEAD_WITH_ID: Final = {bytes((head[0] + 1,)) + head[1:]: name for head, name in NAMES_BY_HEAD.items()}
"""The same of an event that has an id behind its arguments: a map of one field more."""

_ARRAY_OF_3: Final = b"\x93"


def decode_all(records: Iterable[tuple[int, int, bytes | None, Any]]) -> list[Event]:
    """The events of the records (offset, time, key, value) of a log, each as `decode` gives it.

    The hot path of a worker, so events with a known head, with an id behind their arguments or without, are read right
    here: less than half of what a call of `decode` takes for them. It reads whatever is not right with these, too, and
    what is too long. No value is asked for kind and length before its head is known: that of None is a TypeError.
    """
    events: list[Event] = []
    append, name_of = events.append, NAMES_BY_HEAD.get
    for offset, time_ms, _, value in records:
        try:
            end = value[_NAME_AT] - _HEAD_LESS
            head, event_id = value[:end], None
            if (name := name_of(head, b"")) and len(value) <= WALKED_ABOVE_BYTES:
                args = unpackb(value[end:], raw=True)
            elif (name := _NAMES_BY_HEAD_WITH_ID.get(head, b"")) and len(value) <= WALKED_ABOVE_BYTES:
                args, field, event_id = unpackb(_ARRAY_OF_3 + value[end:], raw=True)  # it takes one value alone
                if field != b"id" or event_id.__class__ is not bytes or not 0 < len(event_id) <= ID_BYTES_MAX:
                    args = None
            else:
                args = None
            if args.__class__ is list:
                if name is _EXEC:  # as both dicts have it; `==` is a call
                    args = [_command(command) for command in args]
                else:
                    for arg in args:
                        if arg.__class__ is not bytes:
                            _turn_to_bytes(args)
                            break
                append((offset, time_ms, name, args, 0, event_id, None))
                continue
        except (EventError, TypeError, IndexError, ValueError, UnpackException):
            pass
        append(decode(offset, time_ms, value))
    return events


def decode(offset: int, time_ms: int, value: bytes | None) -> Event:
    """The event in a record's value. Never raises on bad input: the result then has name b"" and args [reason].

    The name comes out in upper case; `args` is list[bytes], for EXEC list[list[bytes]].

    What is wrong finds its reason later, so that what is right costs least.
    """
    try:
        if value is None:
            raise EventError("the record has no value")  # noqa: TRY301 - the one way that reasons take
        if len(value) > WALKED_ABOVE_BYTES:
            _check_headers(value)
        name, args, event_id, db, session = _fields(value)
        if name == b"EXEC":
            args = [_command(command) for command in args]
        else:
            _turn_to_bytes(args)
    except EventError as error:
        reason = error.reason
    except (ValueError, AttributeError, UnpackException) as error:  # AttributeError: not a map, so it has no `get`
        reason = _malformed(error)
    else:
        return (offset, time_ms, name, args, db or 0, event_id, session)
    return (offset, time_ms, b"", [reason.encode()], 0, None, None)


def _fields(value: bytes) -> tuple[bytes, list[Any], bytes | None, int | None, bytes | None]:
    """Name, arguments, id, database and session of an event in any order of its fields.

    Raises:
        EventError: they are not those of an event.
        ValueError, UnpackException: it is no msgpack. AttributeError: it is no map, so it has no `get`.
    """
    event = unpackb(value, raw=True)
    get, fields = event.get, len(event)
    if get(b"v") is not VERSION and UPCASTERS:
        event = _upcast(event)
        get = event.get
    name, args = get(b"cmd"), get(b"args")
    usual = len(event) == 3 and get(b"v") is VERSION
    if not usual or not name or name.__class__ is not bytes or args.__class__ is not list:
        _check_fields(event)
    if value[0] != 0x80 + fields:  # a map of n fields begins with 0x80 + n, and one given twice counts in n
        _check_field_count(value, fields)
    return name.upper(), args, get(b"id"), get(b"db"), get(b"session")


def _upcast(event: Fields) -> Fields:
    """An event of an earlier version as one of the newest, version by version; any other as it is.

    Raises:
        EventError: it is not what its version says.
    """
    version = event.get(b"v")
    while version.__class__ is int and version < VERSION and version in UPCASTERS:
        event = UPCASTERS[version](event)
        version += 1
        event[b"v"] = version
    return event


def _check_fields(event: Fields) -> None:
    """Refuse wrong fields. The caller's quick look saw that this is not the commonest event: it may still be right."""
    if not _FIELDS.issuperset(event):
        raise EventError(f"unknown field {_shown(min(event.keys() - _FIELDS))}")
    version = event.get(b"v")
    if version.__class__ is not int or version != VERSION:
        raise EventError(f"v is not {VERSION}, the one version that is known")
    name = event.get(b"cmd")
    if name.__class__ is not bytes or not name:
        raise EventError("cmd is not a string of at least 1 byte")
    if event.get(b"args").__class__ is not list:
        raise EventError("args is not an array")
    if b"id" in event:
        event_id = event[b"id"]
        if event_id.__class__ is not bytes or not 0 < len(event_id) <= ID_BYTES_MAX:
            raise EventError(f"id is not a string of 1 to {ID_BYTES_MAX} bytes")
    if b"db" in event:
        db = event[b"db"]
        if db.__class__ is not int or not 0 <= db < DATABASES:
            raise EventError(f"db is not an integer from 0 to {DATABASES - 1}")
    if b"session" in event:
        session = event[b"session"]
        if session.__class__ is not bytes or len(session) != SESSION_BYTES:
            raise EventError(f"session is not a string of {SESSION_BYTES} bytes")
    if b"meta" in event:
        _check_meta(event[b"meta"])


def _check_meta(meta: Any) -> None:
    """`meta` is a map, and what is in it stays within the nesting of an event."""
    if meta.__class__ is not dict:
        raise EventError("meta is not a map")
    for field in meta.values():
        for inner in field.values() if field.__class__ is dict else field if field.__class__ is list else ():
            if inner.__class__ is dict or inner.__class__ is list:
                raise EventError(_TOO_DEEP)


def _check_field_count(value: bytes, fields: int) -> None:
    """The header of the map must count as many fields as came out of it, else one was given twice."""
    head = value[0]
    if head == _MAP_16:
        count = int.from_bytes(value[1:3], "big")
    elif head == _MAP_32:
        count = int.from_bytes(value[1:5], "big")
    else:
        count = head & 0x0F
    if count != fields:
        raise EventError("a field is given twice")


def _command(command: Any) -> list[bytes]:
    """One command of an EXEC, its arguments as bytes."""
    if command.__class__ is not list or not command or command[0].__class__ is not bytes:
        raise EventError("a command of an EXEC is not an array of its name and arguments")
    for arg in command:
        if arg.__class__ is not bytes:
            _turn_to_bytes(command)
            break
    arguments: list[bytes] = command
    return arguments


def _turn_to_bytes(args: list[Any]) -> None:
    """Put the bytes that Redis would print in the place of each argument that is not bytes.

    In their list, which msgpack has just made: a new one, and a call for each integer, takes a ZADD 0.13 us more.
    """
    at = 0
    for arg in args:
        if arg.__class__ is not bytes:
            args[at] = b"%d" % arg if arg.__class__ is int else _argument(arg)
        at += 1  # noqa: SIM113 - enumerate makes a tuple for each argument


def _argument(argument: Any) -> bytes:
    """An argument that is not bytes as the bytes that Redis would print."""
    kind = argument.__class__
    if kind is int:
        return b"%d" % argument
    if kind is float:
        if math.isnan(argument):
            raise EventError("an argument is NaN")
        return format_double(argument)
    raise EventError(f"an argument is {_KINDS.get(kind, 'of an extension type')}")


def _malformed(error: Exception) -> str:
    """The reason for what unpackb, or the lack of a `get`, says about the bytes."""
    if isinstance(error, AttributeError):
        return _NO_MAP
    return f"the value is not msgpack: {error}" if str(error) else f"the value is not msgpack: {type(error).__name__}"


def _shown(name: Any) -> str:
    return name[:64].decode("utf-8", "backslashreplace") if isinstance(name, bytes) else repr(name)[:64]


def _check_headers(value: bytes) -> None:
    """Hold the bounds on size, nesting and number of values by walking the msgpack headers; nothing is built.

    Raises:
        EventError: a bound is broken, or a header claims more than the record has.
    """
    size = len(value)
    if size > RECORD_BYTES_MAX:
        raise EventError(f"the record has more than {RECORD_BYTES_MAX} bytes")
    position, values, left = 0, 0, 1
    open_containers: list[int] = []  # for each, how many values it still has after the one that is being walked
    while True:
        while left and position < size:
            left -= 1
            head = value[position]
            if step := _WHOLE[head]:
                position += step
                continue
            if head in _SHORT and position + 1 < size:  # what most arguments are, so told apart first
                position += 2 + value[position + 1]
                continue
            length_bytes, extra, per_element = _HEADERS[head]
            start = position + 1 + length_bytes
            count = int.from_bytes(value[position + 1 : start], "big") if length_bytes else head & 0x0F
            position = start + extra
            if not per_element:
                position += count
                continue
            if open_containers:
                values += count * per_element
            elif per_element == 1:
                raise EventError(_NO_MAP)
            elif count > len(_FIELDS):  # the names of so few are checked later
                raise EventError(f"more than {len(_FIELDS)} fields")
            count *= per_element
            if len(open_containers) == NESTING_MAX:
                raise EventError(_TOO_DEEP)
            if values > ARGUMENTS_MAX:
                raise EventError(f"more than {ARGUMENTS_MAX} arguments")
            if count > size - position:
                raise EventError(_CUT_SHORT)
            open_containers.append(left)
            left = count
        if position > size or left:
            raise EventError(_CUT_SHORT)
        if not open_containers:
            return
        left = open_containers.pop()
