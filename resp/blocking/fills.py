"""Tells which keys an event may fill, and with how many elements, before it is applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.commands.fills import EITHER, Fill, database_of
from engine.commands.registry import SPECS
from engine.model import LIST, STREAM, ZSET
from engine.values.numbers import parse_int

_ALL: Final = 1 << 62
"""What a step takes that leaves nothing of a key."""


def fills_of(name: bytes, args: list[Any], db: int) -> Iterator[Fill]:
    """What the command may fill, in Redis' order of serving. SWAPDB may fill any key: it is not for this to say."""
    if name == b"EXEC":
        return _executed(args, db)
    spec = SPECS.get(name)
    return iter(()) if spec is None or spec.fills is None else spec.fills(spec, args, db)


def _executed(args: list[list[bytes]], db: int) -> Iterator[Fill]:
    """Of all steps, less what they take out again. What one of them fills may be the source of another: no sources."""
    found: dict[tuple[int, bytes, int], int] = {}
    for name, *words in args:
        if name == b"SELECT":
            db = database_of(words[0], db)
        for key, taken in _taken(name, words):
            for place in (db, key, LIST), (db, key, ZSET), (db, key, STREAM), (db, key, EITHER):
                if place in found:
                    found[place] = max(0, found[place] - taken)
        for fill in fills_of(name, words, db):
            place = fill.db, fill.key, fill.type
            found[place] = found.get(place, 0) + fill.elements
    return (Fill(*place, elements) for place, elements in found.items() if elements)


def _taken(name: bytes, args: list[bytes]) -> list[tuple[bytes, int]]:
    """The keys from which a step of a transaction removes elements, and how many, where its words show it."""
    if name in {b"DEL", b"UNLINK"}:
        return [(key, _ALL) for key in args]
    if name in {b"LPOP", b"RPOP", b"ZPOPMIN", b"ZPOPMAX"}:
        return [(args[0], parse_int(args[1]) or 0 if len(args) > 1 else 1)]
    if name in {b"LMOVE", b"RPOPLPUSH"}:
        return [(args[0], 1)]
    return [(args[0], _ALL)] if name in {b"RENAME", b"RENAMENX", b"MOVE"} else []
