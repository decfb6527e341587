"""Finds elements of a list by value. Source: https://valkey.io/commands/#list."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import OUT_OF_LONG_RANGE, SYNTAX, CommandError
from engine.model import LIST
from engine.types import lists
from engine.values.numbers import INT_MIN, parse_int
from engine.values.replies import Reply

_RANK_ZERO: Final = (
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from "
    "the end of the list"
)


class _Search(NamedTuple):
    """Which of the matches: the first is `rank`, from the tail when negative; `most` and `depth` are 0 for no bound."""

    rank: int
    most: int | None
    depth: int


@command(
    "LINSERT key <BEFORE|AFTER> pivot element",
    group="list",
    since="2.2.0",
    complexity="O(n): it reads up to the pivot, and moves what is between that and the nearer end",
    write=True,
    grows=True,
    access="RW insert",
    notifies="linsert",
)
def linsert(tx: Transaction, args: list[bytes]) -> Reply:
    """Insert an element before or after the first one that equals `pivot`. Returns the new length.

    That is -1 when there is no such element, 0 when there is no list. O(elements up to it, or from it to the tail).

    > RPUSH l a c
    (integer) 2
    > LINSERT l BEFORE c b
    (integer) 3
    > LRANGE l 0 -1
    1) "a"
    2) "b"
    3) "c"
    > LINSERT l AFTER x y
    (integer) -1
    """
    where = read_option(args[1])
    if where not in {b"BEFORE", b"AFTER"}:
        raise CommandError(SYNTAX)
    key = tx.find_typed(args[0], LIST)
    if key is None:
        return 0
    pivot = args[2]
    position = next((at for at, value in lists.scan(key) if value == pivot), None)
    if position is None:
        return -1
    return lists.insert(key, position + (where == b"AFTER"), args[3])


@command(
    "LREM key count element",
    group="list",
    since="1.0.0",
    complexity="O(n): it reads up to the last match, and moves all but the longest run that stays",
    write=True,
    access="RW delete",
    notifies="lrem",
)
def lrem(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete the first `count` equal elements; the last ones if negative, all for 0. Returns how many.

    Returns how many were deleted. O(elements up to the last one of them, or from the first one to the tail).

    > RPUSH l a b a c a
    (integer) 5
    > LREM l -2 a
    (integer) 2
    > LRANGE l 0 -1
    1) "a"
    2) "b"
    3) "c"
    """
    count = _parse_long(args[1])
    key = tx.find_typed(args[0], LIST)
    if key is None:
        return 0
    element = args[2]
    matches = (at for at, value in lists.scan(key, reverse=count < 0) if value == element)
    positions = sorted(islice(matches, abs(count) or None))
    if positions:
        lists.remove(tx, key, positions)
    return len(positions)


@command(
    "LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
    group="list",
    since="6.0.6",
    complexity="O(elements looked at)",
)
def lpos(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the position of the first equal element, or nil; with COUNT, of so many of them (0: all).

    RANK 2 begins with the second of them, RANK -1 with the last one, going towards the head. MAXLEN is how many
    elements are looked at. O(elements looked at).

    > RPUSH l a b a
    (integer) 3
    > LPOS l a
    (integer) 0
    > LPOS l a RANK -1 COUNT 0
    1) (integer) 2
    2) (integer) 0
    > LPOS l c
    (nil)
    """
    search = _parse_search(args[2:])
    key = tx.find_typed(args[0], LIST)
    positions: list[int] = []
    if key is not None:
        element, skipped = args[1], min(abs(search.rank) - 1, key.size)
        walk = islice(lists.scan(key, reverse=search.rank < 0), search.depth or None)
        matches = (at for at, value in walk if value == element)
        most = 1 if search.most is None else search.most or key.size
        positions = list(islice(matches, skipped, skipped + min(most, key.size)))
    if search.most is None:
        return positions[0] if positions else None
    return positions


def _parse_search(words: list[bytes]) -> _Search:
    rank, most, depth = 1, None, 0
    for at in range(0, len(words), 2):
        option = read_option(words[at])
        if option not in {b"RANK", b"COUNT", b"MAXLEN"} or at + 1 == len(words):
            raise CommandError(SYNTAX)
        text = words[at + 1]
        if option == b"RANK":
            rank = _parse_long(text)
            if rank == 0:
                raise CommandError(_RANK_ZERO)
        elif option == b"COUNT":
            most = _parse_bound(text, "COUNT")
        else:
            depth = _parse_bound(text, "MAXLEN")
    return _Search(rank, most, depth)


def _parse_long(text: bytes) -> int:
    """An integer whose negative fits as well."""
    number = read_integer(text)
    if number == INT_MIN:
        raise CommandError(OUT_OF_LONG_RANGE)
    return number


def _parse_bound(text: bytes, name: str) -> int:
    bound = parse_int(text)
    if bound is None or bound < 0:
        message = f"ERR {name} can't be negative"
        raise CommandError(message)
    return bound
