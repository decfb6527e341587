"""What a command answers, as Python values, and their bytes for the idempotency table.

    int -> integer      bytes -> bulk string      None -> null      list -> array      float -> double
    Status -> simple string      Map, Set, Pairs -> RESP3 map, set and scored members (flat arrays in RESP2)
    NIL_ARRAY -> RESP2's null array      CommandError -> an error among the results of an EXEC

How these look on the wire is the RESP server's matter. The bytes below are slotlog's own and stay on one machine's
disk: one tag byte, then `[length:4]` and the content, or `[count:4]` and the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final

from engine.encoding import U32
from engine.errors import CommandError, CorruptionError

Reply = Any
"""One of the values above. Recursive, so it is not spelled out for the type checker."""


class Status(bytes):
    """A simple string, such as `OK`."""

    __slots__ = ()


class Map(list[tuple[Any, Any]]):
    """Pairs of name and value in the order they are stored: a map in RESP3, a flat array in RESP2."""

    __slots__ = ()


class Set(list[Any]):
    """Members in the order they are stored: a set in RESP3, an array in RESP2."""

    __slots__ = ()


class Pairs(list[tuple[bytes, float]]):
    """Members with their scores: an array of pairs in RESP3, a flat array in RESP2."""

    __slots__ = ()


class _NilArray:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NIL_ARRAY"


NIL_ARRAY: Final = _NilArray()
OK: Final = Status(b"OK")

_DOUBLE: Final = Struct(">d")
_LISTS: Final[dict[type, bytes]] = {list: b"*", Set: b"~"}
_PAIRS: Final[dict[type, bytes]] = {Map: b"%", Pairs: b">"}


def pack(reply: Reply) -> bytes:
    """The reply as bytes; `unpack` gives it back with the same types."""
    kind = type(reply)
    if reply is None:
        return b"_"
    if reply is NIL_ARRAY:
        return b"N"
    if kind is int:
        return _tagged(b":", b"%d" % reply)
    if kind is bytes:
        return _tagged(b"$", reply)
    if kind is Status:
        return _tagged(b"+", bytes(reply))
    if kind is float:
        return b"," + _DOUBLE.pack(reply)
    if kind is CommandError:
        return _tagged(b"-", reply.message.encode(errors="surrogateescape"))
    if kind in _LISTS:
        return _LISTS[kind] + U32.pack(len(reply)) + b"".join(map(pack, reply))
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


_READ_CONTENT: Final[dict[bytes, Callable[[bytes], Reply]]] = {
    b":": int,
    b"$": bytes,
    b"+": Status,
    b"-": lambda content: CommandError(content.decode(errors="surrogateescape")),
}
_READ_ELEMENTS: Final = {b"*": list, b"~": Set, b"%": Map, b">": Pairs}


def _unpack(data: bytes, at: int) -> tuple[Reply, int]:
    tag = data[at : at + 1]
    at += 1
    if tag == b"_":
        return None, at
    if tag == b"N":
        return NIL_ARRAY, at
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
        if tag in b"%>":
            second, at = _unpack(data, at)
            element = (element, second)
        elements.append(element)
    return _READ_ELEMENTS[tag](elements), at
