"""Replies of commands as Python values, and their bytes for the idempotency table.

    int -> integer      bytes -> bulk string      None -> null      list -> array      float -> double
    Status -> simple string      Map, Set, Pairs -> RESP3 map, set and scored members (flat arrays in RESP2)
    NIL_ARRAY -> RESP2's null array      CommandError -> an error among the results of an EXEC
    Named -> RESP3 map (an array of pairs in RESP2)
    Digits -> a double with just these digits      True, False -> boolean (1 and 0 in RESP2)
    BigNumber, Verbatim -> what RESP3 calls so (bulk strings in RESP2)

How these look on the wire is the RESP server's matter. The bytes below are slotlog's own and stay on one machine's
disk: one tag byte, then `[length:4]` and the content, or `[count:4]` and the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from operator import itemgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final, Self, TypeVar

from engine.errors import REPLY_TOO_LARGE, CommandError, CorruptionError
from engine.limits import REPLY_BYTES_MAX
from engine.values.encoding import U32

Reply = Any
"""One of the values above. Recursive, so it is not spelled out for the type checker."""


class Status(bytes):
    """A simple string, such as `OK`."""

    __slots__ = ()


class Digits(bytes):
    """A number in the digits that Redis prints: a double in RESP3, a bulk string in RESP2."""

    __slots__ = ()


class BigNumber(bytes):
    """An integer of any length, in digits."""

    __slots__ = ()


class Verbatim(bytes):
    """Text for people, such as INFO's.

    RESP3 says its form, `txt` or another, so that a client does not cut it up.
    """

    form: bytes

    def __new__(cls, text: bytes, form: bytes = b"txt") -> Self:
        """Make one of `text`; a server shows the first three letters of `form`."""
        verbatim = super().__new__(cls, text)
        verbatim.form = form
        return verbatim


class Map(list[tuple[Any, Any]]):
    """Pairs of name and value in the order they are stored: a map in RESP3, a flat array in RESP2."""

    __slots__ = ()


class Set(list[Any]):
    """Members in the order they are stored: a set in RESP3, an array in RESP2."""

    __slots__ = ()


class Pairs(list[tuple[bytes, Any]]):
    """Members with their scores, or fields with their values: an array of pairs in RESP3, a flat array in RESP2."""

    __slots__ = ()


class Named(list[tuple[bytes, Any]]):
    """Names with what each has, such as streams with entries: a map in RESP3, an array of pairs in RESP2."""

    __slots__ = ()


def texts_bytes(some: list[bytes]) -> int:
    """Of byte strings, for `bounded`."""
    return sum(map(len, some))


def pairs_bytes(some: list[tuple[bytes, bytes]]) -> int:
    """Of pairs of byte strings, for `bounded`."""
    return sum(map(len, chain.from_iterable(some))) + REPLY_ELEMENT_BYTES * len(some)


def scored_bytes(some: list[tuple[bytes, float]]) -> int:
    """Of members with their scores, for `bounded`."""
    return sum(map(len, map(_first, some))) + REPLY_ELEMENT_BYTES * len(some)


class _NilArray:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NIL_ARRAY"


NIL_ARRAY: Final = _NilArray()
OK: Final = Status(b"OK")

REPLY_ELEMENT_BYTES: Final = 64
"""An element's share of a list and of an object, or its frame and the digits of its length."""

_MEASURED_AT_ONCE: Final = 64
_Element = TypeVar("_Element")

_first = itemgetter(0)

_DOUBLE: Final = Struct(">d")
_PAIRS: Final[dict[type, bytes]] = {Map: b"%", Pairs: b">", Named: b"&"}


def bounded(
    elements: Iterable[_Element],
    measure: Callable[[list[Any]], int] = texts_bytes,
    at_once: int = _MEASURED_AT_ONCE,
) -> list[_Element]:
    """The elements of a reply that holds all of them. What changes something must have them before it does.

    Args:
        elements: any number of them.
        measure: the bytes of some of them; for byte strings if it is not given.
        at_once: how many are taken before they are measured; 1 where each may be as long as a string can be.

    Raises:
        CommandError: they are too much for one reply. Not many more were taken.
    """
    if type(elements) is list and len(elements) <= at_once:  # a few, at hand: half of what a short range costs here
        if measure(elements) > REPLY_BYTES_MAX - REPLY_ELEMENT_BYTES * len(elements):
            raise CommandError(REPLY_TOO_LARGE)
        return elements
    elements = iter(elements)
    found: list[_Element] = []
    room = REPLY_BYTES_MAX
    while some := list(islice(elements, at_once)):
        room -= measure(some) + REPLY_ELEMENT_BYTES * len(some)
        if room < 0:
            raise CommandError(REPLY_TOO_LARGE)
        found += some
    return found


class TransactionReplies:
    """The replies of one transaction's commands, which are bounded together.

    Those of writes have a bound of their own: a read that nobody waits for does not run, so what it would have replied
    must not decide whether a write runs.

    Attributes:
        kept: in order.
        bytes_of_all: about how much they take. Up to `REPLY_BYTES_MAX` the next command may run, unasked.
    """

    __slots__ = ("_bytes_of_writes", "bytes_of_all", "kept")

    def __init__(self) -> None:
        self.kept: list[Reply] = []
        self.bytes_of_all = 0
        self._bytes_of_writes = 0

    def check(self, *, write: bool) -> None:
        """Whether the next command may run.

        Raises:
            CommandError: the replies so far are too much.
        """
        if (self._bytes_of_writes if write else self.bytes_of_all) > REPLY_BYTES_MAX:
            raise CommandError(REPLY_TOO_LARGE)

    def add(self, reply: Reply, write: bool) -> None:
        """Keep a reply. Hot path, so `write` may be given by position."""
        size = REPLY_ELEMENT_BYTES if type(reply) is int else reply_bytes(reply)
        self.bytes_of_all += size
        if write:
            self._bytes_of_writes += size
        self.kept.append(reply)


def reply_bytes(reply: Reply) -> int:
    """What a reply takes, about."""
    if isinstance(reply, bytes):
        return REPLY_ELEMENT_BYTES + len(reply)
    if isinstance(reply, list | tuple):
        return REPLY_ELEMENT_BYTES + sum(map(reply_bytes, reply))
    return REPLY_ELEMENT_BYTES


def pack(reply: Reply) -> bytes:
    """The reply as bytes; `unpack` gives it back with the same types."""
    kind = type(reply)
    if kind is int:
        return _SMALL_INTEGERS[reply] if 0 <= reply < len(_SMALL_INTEGERS) else _tagged(b":", b"%d" % reply)
    if reply is OK:  # with a number the commonest of a write, and a list that of a transaction
        return _PACKED_OK
    if kind is list:
        return b"*" + U32.pack(len(reply)) + b"".join(map(pack, reply))
    if reply is None:
        return b"_"
    if reply is NIL_ARRAY:
        return b"N"
    if kind is bool:
        return b"t" if reply else b"f"
    if kind is bytes:
        return _tagged(b"$", reply)
    if kind is Status:
        return _tagged(b"+", bytes(reply))
    if kind is Digits:
        return _tagged(b".", bytes(reply))
    if kind is BigNumber:
        return _tagged(b"(", bytes(reply))
    if kind is Verbatim:
        return _tagged(b"=", pack(reply.form) + bytes(reply))
    if kind is float:
        return b"," + _DOUBLE.pack(reply)
    if kind is CommandError:
        return _tagged(b"-", reply.message.encode(errors="surrogateescape"))
    if kind is Set:
        return b"~" + U32.pack(len(reply)) + b"".join(map(pack, reply))
    return _PAIRS[kind] + U32.pack(len(reply)) + b"".join(pack(first) + pack(second) for first, second in reply)


def unpack(data: bytes) -> Reply:
    """The reply that `pack` wrote.

    Raises:
        CorruptionError: `data` is not the whole of one packed reply.
    """
    try:
        reply, end = _unpack(data, 0)
    except (StructError, ValueError, KeyError) as error:
        message = "a stored reply cannot be read"
        raise CorruptionError(message) from error
    if end != len(data):
        message = "a stored reply has bytes after its end"
        raise CorruptionError(message)
    return reply


def _tagged(tag: bytes, content: bytes) -> bytes:
    return tag + U32.pack(len(content)) + content


_PACKED_OK: Final = _tagged(b"+", b"OK")
_SMALL_INTEGERS: Final = tuple(_tagged(b":", b"%d" % number) for number in range(256))
"""Packed: most replies that are kept are counts, and each is packed where its event has an id."""


_READ_CONTENT: Final[dict[bytes, Callable[[bytes], Reply]]] = {
    b":": int,
    b"$": bytes,
    b"+": Status,
    b".": Digits,
    b"(": BigNumber,
    b"=": lambda content: Verbatim(content[5 + int.from_bytes(content[1:5], "big") :], _unpack(content, 0)[0]),
    b"-": lambda content: CommandError(content.decode(errors="surrogateescape")),
}
_CONSTANTS: Final[dict[bytes, Reply]] = {b"_": None, b"N": NIL_ARRAY, b"t": True, b"f": False}
_READ_ELEMENTS: Final = {b"*": list, b"~": Set, b"%": Map, b">": Pairs, b"&": Named}


def _unpack(data: bytes, at: int) -> tuple[Reply, int]:
    tag = data[at : at + 1]
    at += 1
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag == b",":
        return _DOUBLE.unpack(data[at : at + 8])[0], at + 8
    count = int.from_bytes(data[at : at + 4], "big")
    at += 4
    if tag in _READ_CONTENT:
        content = data[at : at + count]
        if len(content) != count:
            raise ValueError(count)
        return _READ_CONTENT[tag](content), at + count
    elements = []
    for _ in range(count):
        element, at = _unpack(data, at)
        if tag in b"%>&":
            second, at = _unpack(data, at)
            element = (element, second)
        elements.append(element)
    return _READ_ELEMENTS[tag](elements), at
