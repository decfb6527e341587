"""Random elements of a collection, not removed: SRANDMEMBER, HRANDFIELD, ZRANDMEMBER.

As part of an event a draw is the same at every replay. Source: https://valkey.io/commands/srandmember/.
"""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import OUT_OF_LONG_RANGE, SYNTAX, VALUE_OUT_OF_RANGE, CommandError
from engine.limits import DRAWS_MAX
from engine.model import SET, ZSET
from engine.types import draws
from engine.types.hash import hash_fields
from engine.types.zset import zsets
from engine.values.numbers import INT_MAX, INT_MIN
from engine.values.replies import Pairs, Reply

_PAIRS_MAX: Final = INT_MAX // 2


@command(
    "SRANDMEMBER key [count]",
    group="set",
    since="1.0.0",
    complexity="O(count) descents of some 20 seeks each; O(n) when n is at most 256, or 256 times the count",
)
def srandmember(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a random member, or `count` different ones; a negative count may repeat members.

    > SADD s a
    (integer) 1
    > SRANDMEMBER s
    "a"
    > SRANDMEMBER s -2
    1) "a"
    2) "a"
    > SRANDMEMBER none
    (nil)
    """
    if len(args) > 2:
        raise CommandError(SYNTAX)
    count = _parse_count(args[1]) if len(args) == 2 else None
    key = tx.find_typed(args[0], SET)
    if count is None:
        return None if key is None else draws.repeated(tx, key, 1)[0]
    return [] if key is None else _draw(tx, key, count)


@command(
    "HRANDFIELD key [count [WITHVALUES]]",
    group="hash",
    since="6.2.0",
    complexity="O(count) descents of some 20 seeks each; O(n) when n is at most 256, or 256 times the count",
)
def hrandfield(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a random field, or `count` different ones; a negative count may repeat fields.

    > HSET h f "1"
    (integer) 1
    > HRANDFIELD h
    "f"
    > HRANDFIELD h -2 WITHVALUES
    1) "f"
    2) "1"
    3) "f"
    4) "1"
    """
    count, with_values = _parse_pairs(args, b"WITHVALUES")
    key = hash_fields.find(tx, args[0])
    if count is None:
        return None if key is None else draws.repeated(tx, key, 1)[0]
    if key is None:
        return []
    fields = _draw(tx, key, count)
    return Pairs((field, hash_fields.get(tx, key, field)) for field in fields) if with_values else fields


@command(
    "ZRANDMEMBER key [count [WITHSCORES]]",
    group="sorted-set",
    since="6.2.0",
    complexity="O(count * √n); O(n) when n is at most 512, or 256 times the count",
)
def zrandmember(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a random member, or `count` different ones; a negative count may repeat members.

    > ZADD z 1.5 "a"
    (integer) 1
    > ZRANDMEMBER z
    "a"
    > ZRANDMEMBER z 3 WITHSCORES
    1) "a"
    2) "1.5"
    """
    count, with_scores = _parse_pairs(args, b"WITHSCORES")
    key = tx.find_typed(args[0], ZSET)
    if count is None:
        return None if key is None else draws.repeated(tx, key, 1)[0]
    if key is None:
        return []
    members = _draw(tx, key, count)
    if not with_scores:
        return members
    return Pairs((member, zsets.score_of(key, member)) for member in members)


def _draw(tx: Transaction, key: Key, count: int) -> list[bytes]:
    """`count` different subkeys, or with a negative count so many that may be the same."""
    if count >= 0:
        return draws.distinct(tx, key, count) if count else []
    if count < -DRAWS_MAX:
        raise CommandError(VALUE_OUT_OF_RANGE)
    return draws.repeated(tx, key, -count)


def _parse_pairs(args: list[bytes], option: bytes) -> tuple[int | None, bool]:
    """The count, None without one, and whether `option` stands behind it."""
    if len(args) == 1:
        return None, False
    count = _parse_count(args[1])
    if len(args) == 2:
        return count, False
    if len(args) > 3 or read_option(args[2]) != option:
        raise CommandError(SYNTAX)
    if abs(count) > _PAIRS_MAX:
        raise CommandError(VALUE_OUT_OF_RANGE)
    return count, True


def _parse_count(text: bytes) -> int:
    count = read_integer(text)
    if count == INT_MIN:
        raise CommandError(OUT_OF_LONG_RANGE)
    return count
