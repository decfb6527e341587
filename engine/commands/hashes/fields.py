"""Commands on a hash's fields. Source: https://valkey.io/commands/#hash.

Replies list fields in byte order.
"""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer
from engine.commands.registry import command
from engine.errors import (
    HASH_VALUE_NOT_A_FLOAT,
    HASH_VALUE_NOT_AN_INTEGER,
    INCREMENT_NAN,
    INCREMENT_OVERFLOW,
    NOT_A_FLOAT,
    VALUE_NAN,
    CommandError,
)
from engine.model import HASH
from engine.types.hash import field_expiry, hash_fields
from engine.values.numbers import (
    INT_MAX,
    INT_MIN,
    ZERO,
    add_long_doubles,
    format_long_double,
    parse_int,
    parse_long_double,
)
from engine.values.replies import OK, Map, Reply, bounded, pairs_bytes
from slotlog.shared.errors import wrong_arity

# ------------------------------------------------------------------ writing


@command(
    "HSET key field value [field value ...]",
    group="hash",
    since="2.0.0",
    complexity="O(fields)",
    write=True,
    fast=True,
    grows=True,
    notifies="hset",
)
def hset(tx: Transaction, args: list[bytes]) -> Reply:
    """Set fields of a hash. Returns how many are new.

    > HSET h name "carol" age "41"
    (integer) 2
    > HSET h age "42" city "Oslo"
    (integer) 1
    """
    if len(args) == 3:
        name, field, value = args  # `*args` would cost 1 % of an event: such a call is not specialized
        return hash_fields.put_single(tx, name, field, value)
    if len(args) % 2 == 0:
        raise CommandError(wrong_arity("hset"))
    name = args[0]
    return hash_fields.put(tx, name, tx.find_to_write(name, HASH), args[1:])


@command(
    "HMSET key field value [field value ...]",
    group="hash",
    since="2.0.0",
    complexity="O(fields)",
    write=True,
    fast=True,
    grows=True,
    notifies="hset",
)
def hmset(tx: Transaction, args: list[bytes]) -> Reply:
    """Set fields of a hash, as HSET does. Returns OK.

    > HMSET h name "carol" age "41"
    OK
    """
    if len(args) % 2 == 0:
        raise CommandError(wrong_arity("hmset"))
    name = args[0]
    hash_fields.put(tx, name, tx.find_to_write(name, HASH), args[1:])
    return OK


@command(
    "HSETNX key field value",
    group="hash",
    since="2.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="hset",
)
def hsetnx(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a field if it is absent. Returns 1 when it was set, else 0.

    > HSETNX h name "carol"
    (integer) 1
    > HSETNX h name "dave"
    (integer) 0
    > HGET h name
    "carol"
    """
    name, field, value = args
    key = tx.find_typed(name, HASH)
    if hash_fields.get(tx, key, field) is not None:
        return 0
    hash_fields.put_one(tx, name, key, field, value, is_new=True)
    return 1


@command(
    "HINCRBY key field increment",
    group="hash",
    since="2.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="hincrby",
)
def hincrby(tx: Transaction, args: list[bytes]) -> Reply:
    """Add to the integer value of a field; an absent field counts as 0. Returns the sum.

    > HINCRBY h visits 5
    (integer) 5
    > HINCRBY h visits -7
    (integer) -2
    > HSET h name "carol"
    (integer) 1
    > HINCRBY h name 1
    (error) ERR hash value is not an integer
    """
    name, field, amount = args
    increment = read_integer(amount)
    key = tx.find_typed(name, HASH)
    old = hash_fields.get(tx, key, field)
    number = 0 if old is None else parse_int(old)
    if number is None:
        raise CommandError(HASH_VALUE_NOT_AN_INTEGER)
    number += increment
    if not INT_MIN <= number <= INT_MAX:
        raise CommandError(INCREMENT_OVERFLOW)
    hash_fields.put_one(tx, name, key, field, b"%d" % number, is_new=old is None)
    return number


@command(
    "HINCRBYFLOAT key field increment",
    group="hash",
    since="2.6.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="hincrbyfloat",
)
def hincrbyfloat(tx: Transaction, args: list[bytes]) -> Reply:
    """Add to the number in a field, with the precision of an 80-bit float; an absent field counts as 0.

    > HINCRBYFLOAT h price 10.5
    "10.5"
    > HINCRBYFLOAT h price 0.1
    "10.6"
    > HINCRBYFLOAT h sold 2e3
    "2000"
    """
    name, field, amount = args
    increment = parse_long_double(amount)
    if increment is None:
        raise CommandError(NOT_A_FLOAT)
    if increment.is_infinite:
        raise CommandError(VALUE_NAN)
    key = tx.find_typed(name, HASH)
    old = hash_fields.get(tx, key, field)
    number = ZERO if old is None else parse_long_double(old)
    if number is None:
        raise CommandError(HASH_VALUE_NOT_A_FLOAT)
    total = add_long_doubles(number, increment)
    if total is None:
        raise CommandError(INCREMENT_NAN)
    value = format_long_double(total)
    hash_fields.put_one(tx, name, key, field, value, is_new=old is None)
    return value


@command(
    "HDEL key field [field ...]",
    group="hash",
    since="2.0.0",
    complexity="O(fields)",
    write=True,
    fast=True,
    access="RW delete",
    notifies="hdel",
)
def hdel(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete fields. Returns how many existed.

    > HSET h a "1" b "2"
    (integer) 2
    > HDEL h a c
    (integer) 1
    """
    key = tx.find_to_write(args[0], HASH)
    return 0 if key is None else hash_fields.remove(tx, key, args[1:])


# ------------------------------------------------------------------ reading


@command("HGET key field", group="hash", since="2.0.0", complexity="O(1)", fast=True)
def hget(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the value of a field, or nil.

    > HSET h name "carol"
    (integer) 1
    > HGET h name
    "carol"
    > HGET h none
    (nil)
    """
    return hash_fields.get(tx, tx.find_typed(args[0], HASH), args[1])


@command("HMGET key field [field ...]", group="hash", since="2.0.0", complexity="O(fields)", fast=True)
def hmget(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the values of fields, nil for an absent one.

    > HSET h a "1" b "2"
    (integer) 2
    > HMGET h b none a
    1) "2"
    2) (nil)
    3) "1"
    """
    key = tx.find_typed(args[0], HASH)
    return [hash_fields.get(tx, key, field) for field in args[1:]]


@command("HGETALL key", group="hash", since="2.0.0", complexity="O(n)")
def hgetall(tx: Transaction, args: list[bytes]) -> Reply:
    """Return all fields and values.

    > HSET h a "1" b "2"
    (integer) 2
    > HGETALL h
    1) "a"
    2) "1"
    3) "b"
    4) "2"
    """
    key = tx.find_typed(args[0], HASH)
    return Map() if key is None else Map(bounded(hash_fields.items(tx, key), pairs_bytes))


@command("HKEYS key", group="hash", since="2.0.0", complexity="O(n)")
def hkeys(tx: Transaction, args: list[bytes]) -> Reply:
    """Return all fields.

    > HSET h a "1" b "2"
    (integer) 2
    > HKEYS h
    1) "a"
    2) "b"
    """
    key = tx.find_typed(args[0], HASH)
    return [] if key is None else bounded(field for field, _ in hash_fields.items(tx, key))


@command("HVALS key", group="hash", since="2.0.0", complexity="O(n)")
def hvals(tx: Transaction, args: list[bytes]) -> Reply:
    """Return all values, in the order of their fields.

    > HSET h a "1" b "2"
    (integer) 2
    > HVALS h
    1) "1"
    2) "2"
    """
    key = tx.find_typed(args[0], HASH)
    return [] if key is None else bounded(value for _, value in hash_fields.items(tx, key))


@command(
    "HLEN key", group="hash", since="2.0.0", complexity="O(1), and O(fields) that are newly due", fast=True, access="RO"
)
def hlen(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the number of fields.

    > HSET h a "1" b "2"
    (integer) 2
    > HLEN h
    (integer) 2
    """
    key = tx.find_typed(args[0], HASH)
    return 0 if key is None else field_expiry.size(tx, key)


@command("HEXISTS key field", group="hash", since="2.0.0", complexity="O(1)", fast=True, access="RO")
def hexists(tx: Transaction, args: list[bytes]) -> Reply:
    """Return 1 if the field exists, else 0.

    > HSET h a "1"
    (integer) 1
    > HEXISTS h a
    (integer) 1
    > HEXISTS h b
    (integer) 0
    """
    return int(hash_fields.get(tx, tx.find_typed(args[0], HASH), args[1]) is not None)


@command("HSTRLEN key field", group="hash", since="3.2.0", complexity="O(1)", fast=True, access="RO")
def hstrlen(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the length of a field's value in bytes; 0 when it is absent.

    > HSET h name "carol"
    (integer) 1
    > HSTRLEN h name
    (integer) 5
    """
    return len(hash_fields.get(tx, tx.find_typed(args[0], HASH), args[1]) or b"")
