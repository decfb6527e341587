"""Commands on single members of a sorted set. `ranges.py` has those that take a range.

In a complexity, n is the size of the set: see docs/rank-index.md.
Source: https://redis.io/docs/latest/commands/?group=sorted-set.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import Change, KeyspaceEvent, always, popped
from engine.commands.multi_pop import parse_multi_pop
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.errors import NOT_A_FLOAT, OUT_OF_RANGE_POSITIVE, SYNTAX, CommandError
from engine.model import ZSET
from engine.tables.system import RULES_OF_HEXADECIMAL_SCORES
from engine.types.zset import zsets
from engine.types.zset.zsets import GT, LT, NX, XX
from engine.values.encoding import pack_score
from engine.values.numbers import parse_double, parse_hexadecimal, parse_int
from engine.values.replies import NIL_ARRAY, Pairs, Reply
from slotlog.shared.errors import wrong_arity

ZSET_ENDS: Final = {b"MIN": False, b"MAX": True}

# Words of ZADD that are no conditions of `engine.types.zset.zsets`, as further bits.
_CH: Final = 16
_INCR: Final = 32
_CONDITIONS: Final = NX | XX | GT | LT
_OPTIONS: Final = {b"NX": NX, b"XX": XX, b"GT": GT, b"LT": LT, b"CH": _CH, b"INCR": _INCR}

_NX_AND_XX: Final = "ERR XX and NX options at the same time are not compatible"
_GT_LT_NX: Final = "ERR GT, LT, and/or NX options at the same time are not compatible"
_INCR_OF_MANY: Final = "ERR INCR option supports a single increment-element pair"


def _zadd_events(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    options = takewhile(_OPTIONS.__contains__, (word.upper() for word in args[1:]))
    return always(keyspace_events.ZSET, b"zincr" if b"INCR" in options else b"zadd")(args, changes)


@command(
    "ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]",
    group="sorted-set",
    since="1.2.0",
    complexity="O(members given)",
    write=True,
    fast=True,
    grows=True,
    fills=fills.added(2),
    notifies=_zadd_events,
)
def zadd(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the scores of members. Returns how many members are new.

    With CH, how many are new or have another score now. With INCR, the new score, or nil where a condition forbids it.

    > ZADD z 1 "a" 2 "b"
    (integer) 2
    > ZADD z GT CH 0.5 "a" 3 "b"
    (integer) 1
    > ZADD z NX INCR 5 "a"
    (nil)
    """
    if len(args) == 3:
        # Hot path: three arguments are a key, a score and a member, or an error.
        name, text, member = args
        score = parse_double(text)
        if score is not None:
            return zsets.add_single(tx, name, pack_score(score), member)
    return _add(tx, args, 0)


@command(
    "ZINCRBY key increment member",
    group="sorted-set",
    since="1.2.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    fills=fills.incremented,
    notifies="zincr",
)
def zincrby(tx: Transaction, args: list[bytes]) -> Reply:
    """Add to the score of a member; an absent one counts as 0. Returns the new score.

    > ZINCRBY z 1.5 "a"
    "1.5"
    > ZINCRBY z 1.5 "a"
    "3"
    """
    name, text, member = args
    score = parse_double(text)
    if score is None:
        return _add(tx, args, _INCR)  # it takes options as ZADD does, and then lacks arguments
    return zsets.increment(tx, name, tx.find_typed(name, ZSET), member, score)


def _add(tx: Transaction, args: list[bytes], options: int) -> Reply:
    """ZADD in full, and what is left of ZINCRBY."""
    name, at = args[0], 1
    # `read_option` written out: ZADD is a hot path, and this saves it a call.
    while at < len(args) and (option := _OPTIONS.get(args[at].partition(b"\0")[0].upper(), 0)):
        options |= option
        at += 1
    scores, members = args[at::2], args[at + 1 :: 2]
    _check_options(options, scores, members)
    doubles = []
    for text in scores:
        score = parse_double(text)
        if score is None and tx.rules >= RULES_OF_HEXADECIMAL_SCORES:
            score = parse_hexadecimal(text)
        if score is None:
            raise CommandError(NOT_A_FLOAT)
        doubles.append(score)
    key = tx.find_typed(name, ZSET)
    conditions = options & _CONDITIONS
    if options & _INCR:
        return zsets.increment(tx, name, key, members[0], doubles[0], conditions)
    pairs = zip(map(pack_score, doubles), members, strict=True)
    added, updated = zsets.add(tx, name, key, pairs, conditions)
    return added + updated if options & _CH else added


def _check_options(options: int, scores: list[bytes], members: list[bytes]) -> None:
    """Refuse what does not go together, in the order in which Redis looks."""
    if not scores or len(scores) != len(members):
        raise CommandError(SYNTAX)
    if options & NX and options & XX:
        raise CommandError(_NX_AND_XX)
    if (options & (GT | LT | NX)).bit_count() > 1:
        raise CommandError(_GT_LT_NX)
    if options & _INCR and len(scores) > 1:
        raise CommandError(_INCR_OF_MANY)


@command(
    "ZREM key member [member ...]",
    group="sorted-set",
    since="1.2.0",
    complexity="O(members given)",
    write=True,
    fast=True,
    access="RW delete",
    notifies="zrem",
)
def zrem(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete members. Returns how many existed.

    > ZADD z 1 "a" 2 "b"
    (integer) 2
    > ZREM z "a" "c"
    (integer) 1
    """
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else zsets.remove(tx, key, args[1:])


@command("ZCARD key", group="sorted-set", since="1.2.0", complexity="O(1)", fast=True, access="RO")
def zcard(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the number of members.

    > ZADD z 1 "a" 2 "b"
    (integer) 2
    > ZCARD z
    (integer) 2
    """
    key = tx.find_typed(args[0], ZSET)
    return 0 if key is None else key.size


@command("ZSCORE key member", group="sorted-set", since="1.2.0", complexity="O(1)", fast=True)
def zscore(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the score of a member, or nil.

    > ZADD z 0.5 "a"
    (integer) 1
    > ZSCORE z "a"
    "0.5"
    > ZSCORE z "b"
    (nil)
    """
    key = tx.find_typed(args[0], ZSET)
    return None if key is None else zsets.score_of(key, args[1])


@command("ZMSCORE key member [member ...]", group="sorted-set", since="6.2.0", complexity="O(members given)", fast=True)
def zmscore(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the scores of several members, nil for an absent one.

    > ZADD z 0.5 "a" 2 "b"
    (integer) 2
    > ZMSCORE z "a" "c" "b"
    1) "0.5"
    2) (nil)
    3) "2"
    """
    key = tx.find_typed(args[0], ZSET)
    return [None if key is None else zsets.score_of(key, member) for member in args[1:]]


@command("ZRANK key member [WITHSCORE]", group="sorted-set", since="2.0.0", complexity="O(√n)", fast=True)
def zrank(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the rank of a member, from 0 at the lowest score; nil when it is absent.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZRANK z "b"
    (integer) 1
    > ZRANK z "c" WITHSCORE
    1) (integer) 2
    2) "3"
    """
    return _rank(tx, args, "zrank", reverse=False)


@command("ZREVRANK key member [WITHSCORE]", group="sorted-set", since="2.0.0", complexity="O(√n)", fast=True)
def zrevrank(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the rank of a member, from 0 at the highest score; nil when it is absent.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZREVRANK z "a"
    (integer) 2
    > ZREVRANK z "d"
    (nil)
    """
    return _rank(tx, args, "zrevrank", reverse=True)


def _rank(tx: Transaction, args: list[bytes], name: str, *, reverse: bool) -> Reply:
    if len(args) > 3:
        raise CommandError(wrong_arity(name))
    with_score = len(args) == 3
    if with_score and read_option(args[2]) != b"WITHSCORE":
        raise CommandError(SYNTAX)
    key = tx.find_typed(args[0], ZSET)
    found = None if key is None else zsets.rank(tx, key, args[1], reverse=reverse)
    if found is None:
        return NIL_ARRAY if with_score else None
    return list(found) if with_score else found[0]


@command(
    "ZPOPMIN key [count]",
    group="sorted-set",
    since="5.0.0",
    complexity="O(members taken)",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="zpopmin",
)
def zpopmin(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return the member with the lowest score, or `count` members, with their scores.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZPOPMIN z
    1) "a"
    2) "1"
    > ZPOPMIN z 2
    1) "b"
    2) "2"
    3) "c"
    4) "3"
    """
    return _pop(tx, args, highest=False)


@command(
    "ZPOPMAX key [count]",
    group="sorted-set",
    since="5.0.0",
    complexity="O(members taken)",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="zpopmax",
)
def zpopmax(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return the member with the highest score, or `count` members, with their scores.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZPOPMAX z 2
    1) "c"
    2) "3"
    3) "b"
    4) "2"
    """
    return _pop(tx, args, highest=True)


def _pop(tx: Transaction, args: list[bytes], *, highest: bool) -> Reply:
    if len(args) > 2:
        raise CommandError(SYNTAX)
    count = parse_int(args[1]) if len(args) == 2 else 1
    if count is None or count < 0:
        raise CommandError(OUT_OF_RANGE_POSITIVE)
    key = tx.find_typed(args[0], ZSET)
    if key is None or count == 0:
        return []
    popped = Pairs(map(zsets.split, zsets.pop(tx, key, count, highest=highest)))
    # Without a count even RESP3 gets a flat array.
    return popped if len(args) == 2 else list(popped[0])


@command(
    "ZMPOP numkeys key [key ...] <MIN|MAX> [COUNT count]",
    group="sorted-set",
    since="7.0.0",
    complexity="O(keys + members taken)",
    write=True,
    access="RW access delete",
    large_reply=True,
    notifies=popped(keyspace_events.ZSET, {b"MIN": b"zpopmin", b"MAX": b"zpopmax"}),
)
def zmpop(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return members with the lowest or highest scores, from the first sorted set that exists.

    Returns its key, and up to `count` members with their scores, or nil.

    > ZADD z 1 "a" 2 "b" 3 "c"
    (integer) 3
    > ZMPOP 2 none z MAX COUNT 2
    1) "z"
    2) 1) 1) "c"
          2) "3"
       2) 1) "b"
          2) "2"
    > ZMPOP 1 none MIN
    (nil)
    """
    names, highest, count = parse_multi_pop(args, ZSET_ENDS)
    for name in names:
        key = tx.find_typed(name, ZSET)
        if key is not None:
            popped = zsets.pop(tx, key, count, highest=highest)
            return [name, [list(zsets.split(score_key)) for score_key in popped]]  # pairs even in RESP2
    return NIL_ARRAY
