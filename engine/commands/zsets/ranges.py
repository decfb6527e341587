"""Commands that read a range of a sorted set: by rank, by score or by member.

    ZRANGE [BYSCORE|BYLEX] [REV]    ZRANGEBYSCORE    ZRANGEBYLEX    ZREVRANGE …    ZRANGESTORE    ZCOUNT    ZLEXCOUNT

All but the counts are ZRANGE with some of its options fixed. A range of scores or members becomes one of bytes, start
and exclusive end, before anything is read. In a complexity, n is the size of the set: see docs/rank-index.md.
Source: https://redis.io/docs/latest/commands/zrange/.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import stored
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import MIN_MAX_NOT_A_FLOAT, MIN_MAX_NOT_A_STRING_RANGE, SYNTAX, CommandError
from engine.model import ZSET
from engine.types.zset import zset_members, zset_ranges, zsets
from engine.values.encoding import pack_score, prefix_end
from engine.values.numbers import parse_score_bound
from engine.values.replies import Pairs, Reply, bounded

_LIMIT_OF_RANKS: Final = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
_SCORES_OF_MEMBERS: Final = "ERR syntax error, WITHSCORES not supported in combination with BYLEX"

_RANK: Final = b"BYRANK"  # no word of the grammar: what ZRANGE does when nothing else is said
_SCORE: Final = b"BYSCORE"
_LEX: Final = b"BYLEX"


class _Options(NamedTuple):
    """What stands after the range: how it is meant, which way to go, and how much of it to return (below 0: all)."""

    by: bytes
    reverse: bool
    offset: int
    limit: int
    with_scores: bool


# ---------------------------------------------------------------------------------------------------------- commands


@command(
    "ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
    group="sorted-set",
    since="1.2.0",
    complexity="O(√n + members returned)",
)
def zrange(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members by rank, score or member, from the lowest score or, with REV, from the highest.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZRANGE z 0 -2
    1) "a"
    2) "b"
    > ZRANGE z (3 -inf BYSCORE REV LIMIT 0 1 WITHSCORES
    1) "b"
    2) "2"
    > ZRANGE z [b + BYLEX
    1) "b"
    2) "c"
    """
    return _range(tx, args, by=None, reverse=None)


@command(
    "ZREVRANGE key start stop [WITHSCORES]", group="sorted-set", since="1.2.0", complexity="O(√n + members returned)"
)
def zrevrange(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members by rank, from the highest score.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZREVRANGE z 0 1 WITHSCORES
    1) "c"
    2) "3"
    3) "b"
    4) "2"
    """
    return _range(tx, args, by=_RANK, reverse=True)


@command(
    "ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]",
    group="sorted-set",
    since="1.0.5",
    complexity="O(√n + members returned)",
)
def zrangebyscore(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members by score, from the lowest; a bound after `(` is excluded.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZRANGEBYSCORE z (1 +inf
    1) "b"
    2) "c"
    """
    return _range(tx, args, by=_SCORE, reverse=False)


@command(
    "ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]",
    group="sorted-set",
    since="2.2.0",
    complexity="O(√n + members returned)",
)
def zrevrangebyscore(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members by score, from the highest; a bound after `(` is excluded.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZREVRANGEBYSCORE z 2 -inf
    1) "b"
    2) "a"
    """
    return _range(tx, args, by=_SCORE, reverse=True)


@command(
    "ZRANGEBYLEX key min max [LIMIT offset count]",
    group="sorted-set",
    since="2.8.9",
    complexity="O(√n + members returned) where all have one score, else O(n)",
)
def zrangebylex(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members in byte order, where all have the same score.

    `[` in front of a bound takes it in, `(` leaves it out; `-` and `+` are below and above every member.

    > ZADD z 0 "a" 0 "b" 0 "c"
    (integer) 3
    > ZRANGEBYLEX z - (c
    1) "a"
    2) "b"
    """
    return _range(tx, args, by=_LEX, reverse=False)


@command(
    "ZREVRANGEBYLEX key max min [LIMIT offset count]",
    group="sorted-set",
    since="2.8.9",
    complexity="O(√n + members returned) where all have one score, else O(n)",
)
def zrevrangebylex(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a range of members in reverse byte order, where all have the same score.

    > ZADD z 0 "a" 0 "b" 0 "c"
    (integer) 3
    > ZREVRANGEBYLEX z + [b
    1) "c"
    2) "b"
    """
    return _range(tx, args, by=_LEX, reverse=True)


@command(
    "ZRANGESTORE destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(√n + members stored)",
    write=True,
    grows=True,
    access="OW update, RO access",
    fills=fills.stored(ZSET),
    notifies=stored(keyspace_events.ZSET, b"zrangestore"),
)
def zrangestore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of ZRANGE; the destination is replaced. Returns how many members it has.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZRANGESTORE d z (1 +inf BYSCORE LIMIT 0 1
    (integer) 1
    > ZRANGE d 0 -1 WITHSCORES
    1) "b"
    2) "2"
    > ZRANGESTORE d none 0 -1
    (integer) 0
    """
    options = _parse_options(args[4:], None, None, may_show_scores=False)
    found = _find(tx, args[1], args[2], args[3], options)
    return zsets.store(tx, args[0], map(zsets.split_packed, found))


@command("ZCOUNT key min max", group="sorted-set", since="2.0.0", complexity="O(√n)", fast=True)
def zcount(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the members in a range of scores.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZCOUNT z (1 3
    (integer) 2
    """
    start, end = score_range(args[1], args[2])
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else zsets.count(tx, key, start, end)


@command(
    "ZLEXCOUNT key min max",
    group="sorted-set",
    since="2.8.9",
    complexity="O(√n) where all have one score, else O(n)",
    fast=True,
)
def zlexcount(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the members in a range of members in byte order, where all have the same score.

    > ZADD z 0 "a" 0 "b" 0 "c"
    (integer) 3
    > ZLEXCOUNT z [b +
    (integer) 2
    """
    start, end = member_range(args[1], args[2])
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else zset_members.count(tx, key, start, end)


# ---------------------------------------------------------------------------------------------------- ZRANGE in full


def _range(tx: Transaction, args: list[bytes], *, by: bytes | None, reverse: bool | None) -> Reply:
    """ZRANGE, with `by` and `reverse` fixed by the command's name or, where None, open to its options."""
    options = _parse_options(args[3:], by, reverse, may_show_scores=True)
    found = bounded(_find(tx, args[0], args[1], args[2], options))
    if options.with_scores:
        return Pairs(map(zsets.split, found))
    return list(map(zsets.member_of, found))


def _parse_options(words: list[bytes], by: bytes | None, reverse: bool | None, *, may_show_scores: bool) -> _Options:
    offset, limit, with_scores = 0, -1, False
    at = 0
    while at < len(words):
        word = read_option(words[at])
        if word == b"WITHSCORES" and may_show_scores:
            with_scores = True
        elif word == b"LIMIT" and len(words) - at > 2:
            offset, limit = _parse_limit(words[at + 1], words[at + 2])
            at += 2
        elif word == b"REV" and reverse is None:
            reverse = True
        elif word in {_SCORE, _LEX} and by is None:
            by = word
        else:
            raise CommandError(SYNTAX)
        at += 1
    if limit != -1 and by in {None, _RANK}:
        raise CommandError(_LIMIT_OF_RANKS)
    if with_scores and by == _LEX:
        raise CommandError(_SCORES_OF_MEMBERS)
    return _Options(by or _RANK, reverse is True, offset, limit, with_scores)


def _parse_limit(offset_text: bytes, count_text: bytes) -> tuple[int, int]:
    return read_integer(offset_text), read_integer(count_text)


def _find(tx: Transaction, name: bytes, low: bytes, high: bytes, options: _Options) -> Iterable[bytes]:
    """The score keys of the range."""
    if options.by == _RANK:
        first, last = parse_ranks(low, high)
        key = tx.find_typed(name, ZSET)
        return iter(()) if key is None else _scan_ranks(tx, key, first, last, options)
    if options.reverse:
        low, high = high, low
    start, end = score_range(low, high) if options.by == _SCORE else member_range(low, high)
    key = tx.find_typed(name, ZSET)
    return iter(()) if key is None else _scan_range(tx, key, start, end, options)


def _scan_ranks(tx: Transaction, key: Key, first: int, last: int, options: _Options) -> Iterable[bytes]:
    first, last = rank_range(key, first, last)
    if first > last:
        return iter(())
    return zset_ranges.scan_ranks(tx, key, first, last, reverse=options.reverse)


def _scan_range(tx: Transaction, key: Key, start: bytes, end: bytes | None, options: _Options) -> Iterable[bytes]:
    """A range of score keys, or of members: less the first `offset`, and at most `limit` of them."""
    offset, limit = options.offset, options.limit
    if offset < 0:
        # As Redis has it for a small set. A large one (a skiplist) takes such an offset from the other end.
        return iter(())
    if options.by == _LEX:
        found = zset_members.scan(tx, key, start, end, offset=offset, reverse=options.reverse)
        return found if limit < 0 else islice(found, limit)
    return zset_ranges.scan_from(tx, key, start, end, offset=offset, limit=limit, reverse=options.reverse)


# ------------------------------------------------------------------------------------------------------------- bounds


def parse_ranks(low: bytes, high: bytes) -> tuple[int, int]:
    """Both ranks as they are written.

    Raises:
        CommandError: one is not an integer.
    """
    return read_integer(low), read_integer(high)


def rank_range(key: Key, first: int, last: int) -> tuple[int, int]:
    """First and last rank: below zero they count from the end, those beyond either end are left out."""
    size = key.size
    return max(first + size if first < 0 else first, 0), min(last + size if last < 0 else last, size - 1)


def score_range(low: bytes, high: bytes) -> tuple[bytes, bytes]:
    """First score key and exclusive end of a range of scores."""
    return _score_bound(low, upper=False), _score_bound(high, upper=True)


def _score_bound(text: bytes, *, upper: bool) -> bytes:
    exclusive = text[:1] == b"("
    score = parse_score_bound(text[1:] if exclusive else text)
    if score is None:
        raise CommandError(MIN_MAX_NOT_A_FLOAT)
    packed = pack_score(score)
    # A start is inclusive and an end is not: they stand before all members of this score or behind them.
    return prefix_end(packed) if exclusive is not upper else packed


def member_range(low: bytes, high: bytes) -> tuple[bytes, bytes | None]:
    """First member and exclusive end (None: there is none) of a range of members."""
    start, end = _member_bound(low, upper=False), _member_bound(high, upper=True)
    # Nothing is above "+", wherever it stands.
    return (b"", b"") if start is None else (start, end)


def _member_bound(text: bytes, *, upper: bool) -> bytes | None:
    sign = text[:1]
    if sign in {b"[", b"("}:
        member = text[1:]
        return member + b"\0" if (sign == b"(") is not upper else member
    if sign in {b"+", b"-"} and text[1:2] in {b"", b"\0"}:  # Redis looks at the sign's C string
        return None if sign == b"+" else b""
    raise CommandError(MIN_MAX_NOT_A_STRING_RANGE)
