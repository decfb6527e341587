"""Commands whose reply the oracle need not repeat byte by byte: what it is asked instead, and what must hold.

SPOP              draws at random: what the engine drew must be members, and is removed from the oracle with SREM
RANDOMKEY         likewise: what the engine drew must be a key
SCAN, HSCAN, …    the engine is asked until its cursor is 0, the oracle once with a large COUNT: the same elements
OBJECT ENCODING   the oracle's depends on how the value came about: the same, or one that it takes for larger values
PFCOUNT           of one key: the oracle, which would write the count into it, is asked for the key and itself
DUMP              another encoding of the same content
MEMORY USAGE      a number of bytes in both, or nil in both; OBJECT REFCOUNT: the oracle shares some small integers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.commands.options import read_option
from engine.commands.registry import SPECS
from engine.values.replies import Reply
from slotlog.shared.errors import EventError
from tests.differential.contents import of_payload

Request = list[bytes]
Ask = Callable[[list[bytes]], Reply]

ALWAYS_EMPTY: Final = frozenset({b"OBJECT|FREQ", b"OBJECT|IDLETIME"})
"""Commands that have nothing to tell: an error or nil, and 0."""

_EVERYTHING: Final = (b"COUNT", b"100000")
_CURSOR_AT: Final = {b"SCAN": 0, b"HSCAN": 1, b"SSCAN": 1, b"ZSCAN": 1}
_WITH_VALUES: Final = {b"HSCAN": b"NOVALUES", b"ZSCAN": b"NOSCORES"}
_DRAWS: Final = {
    b"SRANDMEMBER": (b"SMISMEMBER", b"SCARD"),
    b"HRANDFIELD": (b"HMGET", b"HLEN"),
    b"ZRANDMEMBER": (b"ZMSCORE", b"ZCARD"),
}
SORTS: Final = frozenset({b"SORT", b"SORT_RO"})
_SIZES: Final = frozenset({b"MEMORY|USAGE", b"OBJECT|REFCOUNT"})
_GROWING: Final = (
    (b"listpack", b"quicklist"),
    (b"listpack", b"hashtable"),
    (b"listpack", b"skiplist"),
    (b"intset", b"listpack", b"hashtable"),
    (b"stream",),
)
_OF_STRINGS: Final = (b"int", b"embstr", b"raw")


def complete(name: bytes, args: list[bytes], reply: Reply, ask: Ask) -> Reply:
    """The reply of one of the SCAN commands with those of all further calls; of any other command its reply."""
    at = _CURSOR_AT.get(name)
    if at is None:
        return reply
    cursor, elements = reply
    while cursor != b"0":
        cursor, more = ask([*args[:at], cursor, *args[at + 1 :]])
        elements = elements + more
    return [cursor, elements]


def requests(name: bytes, args: list[bytes], outcome: Reply | EventError) -> list[Request]:
    """What to ask the oracle, given what the engine's outcome was; `name` as it was sent."""
    upper = name.upper()
    members = [outcome] if isinstance(outcome, bytes) else outcome
    if upper == b"SPOP" and isinstance(members, list) and members:
        return [[b"SMISMEMBER", args[0], *members], [b"SCARD", args[0]], [b"SREM", args[0], *members]]
    if upper in _DRAWS and isinstance(members, list) and members:
        names = [each[0] if isinstance(each, tuple) else each for each in members]
        look_up, size = _DRAWS[upper]
        return [[look_up, args[0], *names], [size, args[0]]]
    if upper == b"RANDOMKEY" and isinstance(outcome, bytes):
        return [[b"EXISTS", outcome]]
    if upper == b"PFCOUNT" and len(args) == 1:
        args = args * 2
    words = name.split(b"|") if upper in SPECS else [name]
    return [[*words, *args, *(_EVERYTHING if upper in _CURSOR_AT and isinstance(outcome, list) else ())]]


def is_loose(name: bytes, outcome: Reply) -> bool:
    """Whether `holds` decides about this outcome."""
    if name in {b"SPOP", b"RANDOMKEY", *_DRAWS}:
        return isinstance(outcome, bytes) or (isinstance(outcome, list) and bool(outcome))
    return (name in {b"OBJECT|ENCODING", b"DUMP"} and isinstance(outcome, bytes)) or (
        name in _SIZES and isinstance(outcome, int)
    )


def holds(name: bytes, args: Request, outcome: Reply, replies: list[Any]) -> bool:
    """Whether the oracle's replies to `requests` agree with what the engine's outcome of `args` was."""
    if name in _DRAWS:
        return _are_draws(name, args, outcome, *replies)
    if name == b"SPOP":
        # Members, no two alike; the rest of the set is compared with the contents at the end.
        members = [outcome] if isinstance(outcome, bytes) else outcome
        return bool([1] * len(members) == replies[0] and len(members) == replies[2])
    if name == b"RANDOMKEY":
        return bool(replies == [1])
    if name == b"DUMP":
        return isinstance(replies[0], bytes) and of_payload(outcome) == of_payload(replies[0])
    if name == b"OBJECT|ENCODING":
        if outcome in _OF_STRINGS:
            return replies[0] in _OF_STRINGS
        return any(outcome in chain and replies[0] in chain[chain.index(outcome) :] for chain in _GROWING)
    return isinstance(replies[0], int) and replies[0] > 0 and outcome > 0


def _are_draws(name: bytes, args: Request, outcome: Reply, found: list[Any], size: int) -> bool:
    """Elements with their values: with a negative count as many, else as many different ones as there can be."""
    drawn = [outcome] if isinstance(outcome, bytes) else outcome
    count = int(args[1]) if len(args) > 1 else -1
    there = found == [1] * len(drawn) if name == b"SRANDMEMBER" else None not in found
    shape = float if name == b"ZRANDMEMBER" else bytes
    pairs = [(each[1], shape(value)) for each, value in zip(drawn, found, strict=True) if isinstance(each, tuple)]
    many = len(drawn) == (-count if count < 0 else min(count, size))
    return there and many and all(mine == other for mine, other in pairs) and (count < 0 or len({*drawn}) == len(drawn))


def is_open_sort(request: Request) -> bool:
    """Whether SORT leaves the order open: of a set that stays as it is, and of texts that compare as equal."""
    words = list(map(read_option, request[2:]))
    patterns = [request[2 + at] for at in range(1, len(words)) if words[at - 1] == b"BY"]
    return b"ALPHA" in words or any(b"*" not in pattern.partition(b"\0")[0] for pattern in patterns)


def in_order(name: bytes, request: Request, reply: Any) -> Any:
    """The reply of a SCAN command, of KEYS or of an open SORT with its elements in order; any other one as it is.

    Behind a cursor other than 0, each side may go on where it likes: only the shape is left.
    """
    if name == b"KEYS" and isinstance(reply, list):
        return sorted(reply)
    if name in SORTS and isinstance(reply, list) and is_open_sort(request):
        return len(reply) if b"LIMIT" in map(read_option, request) else sorted(reply, key=repr)
    if name not in _CURSOR_AT or not isinstance(reply, list):
        return reply
    cursor, elements = reply
    if int(request[1 + _CURSOR_AT[name]].partition(b"\0")[0]) != 0:
        return [cursor]
    if name in _WITH_VALUES and _WITH_VALUES[name] not in map(read_option, request):
        # The oracle prints the scores of a large sorted set in other digits than those of a small one.
        shape = float if name == b"ZSCAN" else bytes
        elements = [(part, shape(value)) for part, value in zip(elements[::2], elements[1::2], strict=True)]
    return [cursor, sorted(elements)]
