"""Finders of the keys that a write may fill, and with how many elements: what its decorator says with `fills`.

For a server whose clients wait for elements. Only a key that was empty is of interest, as nobody waits for one that is
not, but for the next entry of a stream. So what adds to a list that is there already (LPUSHX, LINSERT) fills nothing,
and neither do types that nobody can wait for. No event reads any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from engine.model import LIST, STREAM, ZSET
from engine.values.numbers import parse_int
from slotlog.shared.signature import Signature

EITHER: Final = -1
"""Instead of a type code: a list, a sorted set or a stream."""

UNKNOWN: Final = 1 << 32
"""How many elements something may bring that nobody can count beforehand: enough for everybody who waits."""

_ZADD_OPTIONS: Final = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})

StoredKey = tuple[int, bytes]
"""(logical database, key)."""


class Fill(NamedTuple):
    """One key that a command may fill.

    Attributes:
        type: LIST, ZSET, STREAM or EITHER.
        elements: at most so many.
        sources: where they come from: not more than there are; () when they come with the command.
    """

    db: int
    key: bytes
    type: int
    elements: int
    sources: tuple[StoredKey, ...] = ()


FindFills = Callable[[Signature, list[bytes], int], Iterator[Fill]]
"""Takes the command, its arguments and the database that it runs in; gives the keys in Redis' order of serving."""


def pushed(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """Elements behind the key of a list."""
    yield Fill(db, args[0], LIST, len(args) - 1)


def moved(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """One element of the first list to the second."""
    yield Fill(db, args[1], LIST, 1, ((db, args[0]),))


def _added(width: int, _: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    at = 1
    while at < len(args) and args[at].upper() in _ZADD_OPTIONS:
        at += 1
    if b"XX" not in map(bytes.upper, args[1:at]):
        yield Fill(db, args[0], ZSET, (len(args) - at) // width)


def added(width: int) -> FindFills:
    """Members behind options, each with what gives it its place: `width` arguments in all."""
    return partial(_added, width)


def streamed(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """One entry of a stream."""
    yield Fill(db, args[0], STREAM, 1)


def incremented(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """One member of a sorted set."""
    yield Fill(db, args[0], ZSET, 1)


def renamed(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """What the first key holds, at the second."""
    yield Fill(db, args[1], EITHER, UNKNOWN, ((db, args[0]),))


def copied(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """As `renamed`, perhaps in another database: COPY's last `DB` counts, as in Redis."""
    target = db
    for at, word in enumerate(args[2:-1], 3):
        if word.upper() == b"DB":
            target = database_of(args[at], db)
    yield Fill(target, args[1], EITHER, UNKNOWN, ((db, args[0]),))


def moved_to_database(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """The key, in the database behind it."""
    yield Fill(database_of(args[1], db), args[0], EITHER, UNKNOWN, ((db, args[0]),))


def restored(_: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    """The key, from bytes that nobody has looked into yet."""
    yield Fill(db, args[0], EITHER, UNKNOWN)


def _stored(type_code: int, place: int, signature: Signature, args: list[bytes], db: int) -> Iterator[Fill]:
    sources = signature.keys(args)
    if len(sources) > 1:
        destination = sources.pop(place)
        yield Fill(db, destination, type_code, UNKNOWN, tuple((db, source) for source in sources))


def stored(type_code: int, *, place: int = 0) -> FindFills:
    """A result at the key that stands at `place` among the command's keys, made of the others."""
    return partial(_stored, type_code, place)


def database_of(text: bytes, db: int) -> int:
    """The database that an argument names; `db` where it is no number."""
    number = parse_int(text)
    return db if number is None else number
