"""RESP replies without I/O: Python values in, bytes out.

The values are those of `engine.values.replies` and `resp.wire.server_replies`; what each becomes:

    value           RESP2                       RESP3
    bytes           $3 abc                      $3 abc
    int             :1                          :1
    Status          +OK                         +OK
    CommandError    -ERR text                   -ERR text
    list            *2 a b                      *2 a b
    None            $-1                         _
    NIL_ARRAY       *-1                         _
    float           $3 3.5                      ,3.5        whole numbers without a point; inf, -inf, nan
    Digits          $3 3.5                      ,3.5        as they are
    Map             *2 k v                      %1 k v
    Set             *2 a b                      ~2 a b
    Pairs           *2 m 3.5                    *1 *2 m ,3.5
    Named           *1 *2 k v                   %1 k v
    Verbatim        $4 text                     =8 txt:text
    BigNumber       $3 123                      (123
    bool            :1, :0                      #t, #f
    Push            *2 a b                      >2 a b
    Attributed      $4 text                     |1 k v $4 text
    NO_REPLY        nothing                     nothing

Measured on a shared core, CPython 3.11: OK 0.09 us, a small integer 0.16 us, another 0.27 us, a bulk string of 64
bytes 0.24 us, null 0.14 us, PONG 0.17 us, a list of ten bulk strings 2.4 us, a RESP3 map of ten pairs 4.1 us, an error
0.9 us; a double costs what `format_double` takes and 0.2 us.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Final, TypeAlias

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, OK, BigNumber, Digits, Map, Named, Pairs, Reply, Set, Status, Verbatim
from resp.wire.protocol import head_of
from resp.wire.server_replies import NO_REPLY, Attributed, Push
from slotlog.shared.doubles import format_double

_Encoder: TypeAlias = Callable[[Reply], bytes]

_OK: Final = b"+OK\r\n"
_SMALL_INTEGERS: Final = {number: b":%d\r\n" % number for number in range(-2, 256)}  # -2: the TTL of no key
_STATUSES: Final = {
    text: b"+%b\r\n" % text
    for text in (b"PONG", b"QUEUED", b"none", b"string", b"list", b"hash", b"set", b"zset", b"stream")
}
_BULKS_ONLY: Final = {bytes}

_PIECE: Final = 10_000
"""So many elements become bytes in one go, about a millisecond: between two of these others may have their turn."""


def encode2(reply: Reply) -> bytes:
    """The reply in RESP2.

    Raises:
        KeyError: It is of no type of the table above, which is a bug of whoever made it.
    """
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is OK:
        return _OK
    return _ENCODERS2[type(reply)](reply)


def encode3(reply: Reply) -> bytes:
    """The reply in RESP3.

    Raises:
        KeyError: It is of no type of the table above, which is a bug of whoever made it.
    """
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is OK:
        return _OK
    return _ENCODERS3[type(reply)](reply)


# ------------------------------------------------------------------------------------------------- the same in both


def _bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def _integer(number: int) -> bytes:
    return _SMALL_INTEGERS.get(number) or b":%d\r\n" % number


def _status(status: Status) -> bytes:
    return _STATUSES.get(status) or b"+%b\r\n" % _one_line(status)


def _error(error: CommandError) -> bytes:
    return b"-%b\r\n" % _one_line(error.message.encode(errors="surrogateescape"))


def _one_line(text: bytes) -> bytes:
    """As Redis does it: line ends at the end go, others become blanks, so that no text can forge a reply."""
    if b"\n" in text or b"\r" in text:
        return text.rstrip(b"\r\n").replace(b"\r", b" ").replace(b"\n", b" ")
    return text


def _elements(items: list[Reply], encode: _Encoder) -> bytes:
    if len(items) > _PIECE:
        pieces = [_elements(items[at : at + _PIECE], encode) for at in range(0, len(items), _PIECE)]
        return b"".join(pieces)
    if set(map(type, items)) != _BULKS_ONLY:
        return b"".join(map(encode, items))
    lines = [b""] * (2 * len(items) + 1)  # headers and values in turn, and the end of the last line
    lines[:-1:2] = map(head_of, map(len, items))
    lines[1::2] = items
    return b"\r\n".join(lines)


def _nothing(_: Reply) -> bytes:
    return b""


_SHARED: Final[dict[type, _Encoder]] = {
    bytes: _bulk,
    int: _integer,
    Status: _status,
    CommandError: _error,
    type(NO_REPLY): _nothing,
}

# ------------------------------------------------------------------------------------------------------------ RESP2


def _array2(items: list[Reply]) -> bytes:
    return b"*%d\r\n%b" % (len(items), _elements(items, encode2))


def _map2(pairs: Map) -> bytes:
    return b"*%d\r\n%b" % (2 * len(pairs), _elements([*chain.from_iterable(pairs)], encode2))


def _pairs2(pairs: Named) -> bytes:
    return b"*%d\r\n%b" % (len(pairs), b"".join([b"*2\r\n" + encode2(name) + encode2(value) for name, value in pairs]))


def _double2(number: float) -> bytes:
    return _bulk(format_double(number))


_ENCODERS2: Final[dict[type, _Encoder]] = {
    **_SHARED,
    list: _array2,
    type(None): lambda _: b"$-1\r\n",
    type(NIL_ARRAY): lambda _: b"*-1\r\n",
    float: _double2,
    Digits: _bulk,
    Map: _map2,
    Set: _array2,
    Pairs: _map2,
    Named: _pairs2,
    Verbatim: _bulk,
    BigNumber: _bulk,
    bool: _integer,
    Push: _array2,
    Attributed: lambda about: encode2(about.reply),
}

# ------------------------------------------------------------------------------------------------------------ RESP3


def _array3(items: list[Reply]) -> bytes:
    return b"*%d\r\n%b" % (len(items), _elements(items, encode3))


def _set3(members: Set) -> bytes:
    return b"~%d\r\n%b" % (len(members), _elements(members, encode3))


def _push3(items: Push) -> bytes:
    return b">%d\r\n%b" % (len(items), _elements(items, encode3))


def _map3(pairs: Map) -> bytes:
    return b"%%%d\r\n%b" % (len(pairs), _elements([*chain.from_iterable(pairs)], encode3))


def _pairs3(pairs: Pairs) -> bytes:
    return b"*%d\r\n%b" % (len(pairs), b"".join([b"*2\r\n" + encode3(member) + encode3(n) for member, n in pairs]))


def _attributed3(about: Attributed) -> bytes:
    return b"|" + _map3(about.attributes)[1:] + encode3(about.reply)


def _double3(number: float) -> bytes:
    return b",%b\r\n" % format_double(number)


def _verbatim3(text: Verbatim) -> bytes:
    return b"=%d\r\n%b:%b\r\n" % (len(text) + 4, text.form[:3].ljust(3), text)


_ENCODERS3: Final[dict[type, _Encoder]] = {
    **_SHARED,
    list: _array3,
    type(None): lambda _: b"_\r\n",
    type(NIL_ARRAY): lambda _: b"_\r\n",
    float: _double3,
    Digits: lambda digits: b",%b\r\n" % digits,
    Map: _map3,
    Set: _set3,
    Pairs: _pairs3,
    Named: _map3,
    Verbatim: _verbatim3,
    BigNumber: lambda digits: b"(%b\r\n" % digits,
    bool: lambda truth: b"#t\r\n" if truth else b"#f\r\n",
    Push: _push3,
    Attributed: _attributed3,
}
