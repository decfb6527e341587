"""Tells, before a write is applied, which keys it may fill and with how many elements.

Only a key that was empty is of interest, as nobody waits for one that is not. So what adds to a list that is there
already (LPUSHX, LINSERT) fills nothing, and neither do types that nobody can wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from engine.commands.registry import SPECS
from engine.model import LIST, ZSET
from engine.values.numbers import parse_int

EITHER: Final = -1
"""Instead of a type code: a list or a sorted set."""

UNKNOWN: Final = 1 << 32
"""How many elements something may bring that nobody can count beforehand: enough for everybody who waits."""

_ALL: Final = 1 << 62
"""What a step takes that leaves nothing of a key."""

_ZADD_OPTIONS: Final = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})

StoredKey = tuple[int, bytes]
"""(logical database, key)."""


class Fill(NamedTuple):
    """One key that a command may fill.

    Attributes:
        type: LIST, ZSET or EITHER.
        elements: at most so many.
        sources: where they come from: not more than there are; () when they come with the command.
    """

    db: int
    key: bytes
    type: int
    elements: int
    sources: tuple[StoredKey, ...] = ()


def fills_of(name: bytes, args: list[Any], db: int) -> Iterator[Fill]:
    """What the command may fill, in Redis' order of serving. SWAPDB may fill any key: it is not for this to say."""
    find = _FILLS.get(name)
    return iter(()) if find is None else find(args, db)


Find = Callable[[list[Any], int], Iterator[Fill]]


def _pushed(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(db, args[0], LIST, len(args) - 1)


def _moved(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(db, args[1], LIST, 1, ((db, args[0]),))


def _added(args: list[bytes], db: int, width: int) -> Iterator[Fill]:
    """Members behind options, each with what gives it its place: `width` arguments in all."""
    at = 1
    while at < len(args) and args[at].upper() in _ZADD_OPTIONS:
        at += 1
    if b"XX" not in map(bytes.upper, args[1:at]):
        yield Fill(db, args[0], ZSET, (len(args) - at) // width)


def _incremented(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(db, args[0], ZSET, 1)


def _renamed(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(db, args[1], EITHER, UNKNOWN, ((db, args[0]),))


def _copied(args: list[bytes], db: int) -> Iterator[Fill]:
    """COPY's last `DB` counts, as in Redis."""
    target = db
    for at, word in enumerate(args[2:-1], 3):
        if word.upper() == b"DB":
            target = _database(args[at], db)
    yield Fill(target, args[1], EITHER, UNKNOWN, ((db, args[0]),))


def _to_database(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(_database(args[1], db), args[0], EITHER, UNKNOWN, ((db, args[0]),))


def _database(text: bytes, db: int) -> int:
    number = parse_int(text)
    return db if number is None else number


def _restored(args: list[bytes], db: int) -> Iterator[Fill]:
    yield Fill(db, args[0], EITHER, UNKNOWN)


def _stored(args: list[bytes], db: int, name: bytes, type_code: int, place: int) -> Iterator[Fill]:
    """A result at the key that stands at `place` among the command's keys, made of the others."""
    sources = SPECS[name].keys(args)
    if len(sources) > 1:
        destination = sources.pop(place)
        yield Fill(db, destination, type_code, UNKNOWN, tuple((db, source) for source in sources))


def _executed(args: list[list[bytes]], db: int) -> Iterator[Fill]:
    """Of all steps, less what they take out again. What one of them fills may be the source of another: no sources."""
    found: dict[tuple[int, bytes, int], int] = {}
    for name, *words in args:
        if name == b"SELECT":
            db = _database(words[0], db)
        for key, taken in _taken(name, words):
            for place in (db, key, LIST), (db, key, ZSET), (db, key, EITHER):
                if place in found:
                    found[place] = max(0, found[place] - taken)
        for fill in fills_of(name, words, db):
            place = fill.db, fill.key, fill.type
            found[place] = found.get(place, 0) + fill.elements
    return (Fill(*place, elements) for place, elements in found.items() if elements)


def _taken(name: bytes, args: list[bytes]) -> list[tuple[bytes, int]]:
    """What a step of a transaction takes away again, where that is plain to see."""
    if name in {b"DEL", b"UNLINK"}:
        return [(key, _ALL) for key in args]
    if name in {b"LPOP", b"RPOP", b"ZPOPMIN", b"ZPOPMAX"}:
        return [(args[0], parse_int(args[1]) or 0 if len(args) > 1 else 1)]
    if name in {b"LMOVE", b"RPOPLPUSH"}:
        return [(args[0], 1)]
    return [(args[0], _ALL)] if name in {b"RENAME", b"RENAMENX", b"MOVE"} else []


_FILLS: Final[dict[bytes, Find]] = {
    b"LPUSH": _pushed,
    b"RPUSH": _pushed,
    b"LMOVE": _moved,
    b"RPOPLPUSH": _moved,
    b"ZADD": partial(_added, width=2),
    b"GEOADD": partial(_added, width=3),
    b"ZINCRBY": _incremented,
    b"RENAME": _renamed,
    b"RENAMENX": _renamed,
    b"COPY": _copied,
    b"MOVE": _to_database,
    b"RESTORE": _restored,
    b"EXEC": _executed,
}
for _name in (b"ZRANGESTORE", b"ZUNIONSTORE", b"ZINTERSTORE", b"ZDIFFSTORE", b"GEOSEARCHSTORE"):
    _FILLS[_name] = partial(_stored, name=_name, type_code=ZSET, place=0)
for _name, _type in ((b"SORT", LIST), (b"GEORADIUS", ZSET), (b"GEORADIUSBYMEMBER", ZSET)):
    _FILLS[_name] = partial(_stored, name=_name, type_code=_type, place=-1)
