"""Unions, intersections and differences of sorted sets. Source: https://valkey.io/commands/#sorted-set.

Their cost is linear: a union takes all members of all sources, an intersection the smallest one times their number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import stored
from engine.commands.options import parse_limit, read_integer, read_option
from engine.commands.registry import command
from engine.errors import (
    SYNTAX,
    WEIGHT_NOT_A_FLOAT,
    WRONG_TYPE,
    CommandError,
    no_input_key,
)
from engine.model import SET, ZSET
from engine.types.algebra import set_algebra, zset_algebra
from engine.types.algebra.zset_algebra import Aggregate, Scores, WeightedSource
from engine.values.numbers import parse_double
from engine.values.replies import Pairs, Reply, bounded, scored_bytes

_AGGREGATES: Final[dict[bytes, Aggregate]] = {b"SUM": zset_algebra.add, b"MIN": min, b"MAX": max}


class _Options(NamedTuple):
    """What follows the keys."""

    weights: list[float]
    aggregate: Aggregate
    with_scores: bool


_Combine = Callable[[list[Key | None], _Options], Scores]


@command(
    "ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX>] [WITHSCORES]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(m log m) for m members of all sets",
)
def zunion(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members that any sorted set has. Scores are multiplied by WEIGHTS and combined by AGGREGATE.

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZUNION 2 y z WITHSCORES
    1) "a"
    2) "1"
    3) "b"
    4) "12"
    """
    return _combined(tx, args, "zunion", _union)


@command(
    "ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX>] [WITHSCORES]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(smallest set · sets + m log m) for m members of the result",
)
def zinter(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members that all sorted sets have; see ZUNION.

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZINTER 2 y z WEIGHTS 3 1 WITHSCORES
    1) "b"
    2) "16"
    """
    return _combined(tx, args, "zinter", _intersection)


@command(
    "ZDIFF numkeys key [key ...] [WITHSCORES]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(first set · sets + m log m) for m members of the result",
)
def zdiff(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members of the first sorted set that no other one has, with the first set's scores.

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZDIFF 2 y z WITHSCORES
    1) "a"
    2) "1"
    """
    keys, words = _find(tx, args, "zdiff")
    if any(read_option(word) != b"WITHSCORES" for word in words):
        raise CommandError(SYNTAX)
    return _shown(_difference(keys), _Options([], zset_algebra.add, bool(words)))


@command(
    "ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX>]",
    group="sorted-set",
    since="2.0.0",
    complexity="O(m log m) for m members of all sets",
    write=True,
    grows=True,
    access="OW update, RO access",
    fills=fills.stored(ZSET),
    notifies=stored(keyspace_events.ZSET, b"zunionstore"),
)
def zunionstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of ZUNION; the destination is replaced. Returns how many members it has.

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZUNIONSTORE d 2 y z AGGREGATE MAX
    (integer) 2
    > ZRANGE d 0 -1 WITHSCORES
    1) "a"
    2) "1"
    3) "b"
    4) "10"
    """
    return _store_combined(tx, args, "zunionstore", _union)


@command(
    "ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX>]",
    group="sorted-set",
    since="2.0.0",
    complexity="O(smallest set · sets)",
    write=True,
    grows=True,
    access="OW update, RO access",
    fills=fills.stored(ZSET),
    notifies=stored(keyspace_events.ZSET, b"zinterstore"),
)
def zinterstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of ZINTER; the destination is replaced. Returns how many members it has.

    > ZADD z 1 "a" 2 "b"
    (integer) 2
    > SADD s b
    (integer) 1
    > ZINTERSTORE d 2 z s
    (integer) 1
    > ZRANGE d 0 -1 WITHSCORES
    1) "b"
    2) "3"
    """
    return _store_combined(tx, args, "zinterstore", _intersection)


@command(
    "ZDIFFSTORE destination numkeys key [key ...]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(first set · sets)",
    write=True,
    grows=True,
    access="OW update, RO access",
    fills=fills.stored(ZSET),
    notifies=stored(keyspace_events.ZSET, b"zdiffstore"),
)
def zdiffstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of ZDIFF; the destination is replaced. Returns how many members it has.

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZDIFFSTORE d 2 y z
    (integer) 1
    """
    keys, words = _find(tx, args[1:], "zdiffstore")
    if words:
        raise CommandError(SYNTAX)
    return zset_algebra.store(tx, args[0], _difference(keys))


@command(
    "ZINTERCARD numkeys key [key ...] [LIMIT limit]",
    group="sorted-set",
    since="7.0.0",
    complexity="O(smallest set · sets); less with a LIMIT",
)
def zintercard(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the members that all sorted sets have, up to `limit` (0: all).

    > ZADD y 1 "a" 2 "b"
    (integer) 2
    > ZADD z 10 "b"
    (integer) 1
    > ZINTERCARD 2 y z
    (integer) 1
    """
    keys, words = _find(tx, args, "zintercard")
    limit = parse_limit(words)
    present = set_algebra.sources(key for key in keys if key is not None)
    if len(present) < len(keys):
        return 0
    return sum(1 for _ in islice(set_algebra.in_all(present), limit or None))


def _combined(tx: Transaction, args: list[bytes], name: str, combine: _Combine) -> Reply:
    keys, words = _find(tx, args, name)
    options = _parse_options(words, len(keys), may_show_scores=True)
    return _shown(combine(keys, options), options)


def _store_combined(tx: Transaction, args: list[bytes], name: str, combine: _Combine) -> int:
    keys, words = _find(tx, args[1:], name)
    return zset_algebra.store(tx, args[0], combine(keys, _parse_options(words, len(keys), may_show_scores=False)))


def _find(tx: Transaction, args: list[bytes], name: str) -> tuple[list[Key | None], list[bytes]]:
    """The keys that `numkeys key [key ...]` names, None for each that is not there, and the words that follow."""
    number = read_integer(args[0])
    if number < 1:
        raise CommandError(no_input_key(name))
    if number > len(args) - 1:
        raise CommandError(SYNTAX)
    keys = [tx.find(each) for each in args[1 : 1 + number]]
    if any(key is not None and key.type not in {SET, ZSET} for key in keys):
        raise CommandError(WRONG_TYPE)
    return keys, args[1 + number :]


def _parse_options(words: list[bytes], number: int, *, may_show_scores: bool) -> _Options:
    weights, with_scores = [1.0] * number, False
    aggregate = _AGGREGATES[b"SUM"]
    at = 0
    while at < len(words):
        option, left = read_option(words[at]), len(words) - at - 1
        if option == b"WEIGHTS" and left >= number:
            weights = [_parse_weight(text) for text in words[at + 1 : at + 1 + number]]
            at += number
        elif option == b"AGGREGATE" and left:
            at += 1
            found = _AGGREGATES.get(read_option(words[at]))
            if found is None:
                raise CommandError(SYNTAX)
            aggregate = found
        elif option == b"WITHSCORES" and may_show_scores:
            with_scores = True
        else:
            raise CommandError(SYNTAX)
        at += 1
    return _Options(weights, aggregate, with_scores)


def _parse_weight(text: bytes) -> float:
    weight = parse_double(text)
    if weight is None:
        raise CommandError(WEIGHT_NOT_A_FLOAT)
    return weight


def _sources(keys: list[Key | None], options: _Options) -> list[WeightedSource]:
    return [
        zset_algebra.source(key, weight) for key, weight in zip(keys, options.weights, strict=True) if key is not None
    ]


def _union(keys: list[Key | None], options: _Options) -> Scores:
    return zset_algebra.union(_sources(keys, options), options.aggregate)


def _intersection(keys: list[Key | None], options: _Options) -> Scores:
    sources = _sources(keys, options)
    return zset_algebra.intersection(sources, options.aggregate) if len(sources) == len(keys) else iter(())


def _difference(keys: list[Key | None]) -> Scores:
    first, *others = keys
    if first is None:
        return iter(())
    rest = [zset_algebra.source(key) for key in others if key is not None]
    return zset_algebra.difference(zset_algebra.source(first), rest)


def _shown(found: Scores, options: _Options) -> Reply:
    pairs = zset_algebra.ordered(bounded(found, scored_bytes))
    return Pairs(pairs) if options.with_scores else [member for member, _ in pairs]
