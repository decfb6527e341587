"""Commands for keys of any type: removal, existence, type, time to live. Source: https://valkey.io/commands/#generic."""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.expire_options import conditions_hold, parse_conditions, parse_expire_ms
from engine.commands.keyspace_events import deleted, expire_set
from engine.commands.registry import command
from engine.model import TYPE_NAMES
from engine.values.replies import Reply, Status

_NO_KEY = -2
_NEVER = -1

# ------------------------------------------------------------------ removal, existence, type


@command(
    "DEL key [key ...]",
    group="generic",
    since="1.0.0",
    complexity="O(keys), whatever their sizes",
    write=True,
    access="RM delete",
    tips=("request_policy:multi_shard", "response_policy:agg_sum"),
    notifies=deleted,
)
def del_(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete keys, each in O(1) whatever its type and size. Returns how many existed.

    > MSET a "1" b "2"
    OK
    > DEL a b none
    (integer) 2
    """
    deleted = 0
    for name in args:
        key = tx.find(name)
        if key is not None:
            tx.delete(key)
            deleted += 1
    return deleted


@command(
    "UNLINK key [key ...]",
    group="generic",
    since="4.0.0",
    complexity="O(keys), whatever their sizes",
    write=True,
    fast=True,
    access="RM delete",
    tips=("request_policy:multi_shard", "response_policy:agg_sum"),
    notifies=deleted,
)
def unlink(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete keys, as DEL does. Returns how many existed.

    > MSET a "1" b "2"
    OK
    > UNLINK a b none
    (integer) 2
    """
    return del_(tx, args)


@command(
    "EXISTS key [key ...]",
    group="generic",
    since="1.0.0",
    complexity="O(keys)",
    fast=True,
    access="RO",
    tips=("request_policy:multi_shard", "response_policy:agg_sum"),
)
def exists(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the keys that exist; a key that is named twice counts twice.

    > SET a "1"
    OK
    > EXISTS a none a
    (integer) 2
    """
    return sum(tx.find(name) is not None for name in args)


@command(
    "TOUCH key [key ...]",
    group="generic",
    since="3.2.1",
    complexity="O(keys)",
    fast=True,
    access="RO",
    tips=("request_policy:multi_shard", "response_policy:agg_sum"),
)
def touch(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the keys that exist. Unlike Redis, it notes no access: nothing is evicted.

    > SET a "1"
    OK
    > TOUCH a none a
    (integer) 2
    """
    return exists(tx, args)


@command("TYPE key", group="generic", since="1.0.0", complexity="O(1)", fast=True, access="RO")
def type_(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the type of a key, `none` when it is absent.

    > HSET h f "1"
    (integer) 1
    > TYPE h
    hash
    > TYPE none
    none
    """
    key = tx.find(args[0])
    return Status(b"none" if key is None else TYPE_NAMES[key.type].encode())


# ------------------------------------------------------------------ a time to live


@command(
    "EXPIRE key seconds [NX|XX|GT|LT]",
    group="generic",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    notifies=expire_set,
)
def expire(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key's time to live in seconds; 0 or less deletes the key. Returns 1, or 0 when nothing changes.

    Nothing changes when there is no such key or a condition does not hold: NX, it has no time to live yet; XX, it has
    one; GT, it would live longer; LT, it would die sooner. A key without a time to live counts as living for ever.

    > SET a "1"
    OK
    > EXPIRE a 60
    (integer) 1
    > EXPIRE a 30 GT
    (integer) 0
    > TTL a
    (integer) 60
    > EXPIRE a -1
    (integer) 1
    > EXISTS a
    (integer) 0
    """
    return _expire(tx, args, 1000, tx.now_ms, "expire")


@command(
    "PEXPIRE key milliseconds [NX|XX|GT|LT]",
    group="generic",
    since="2.6.0",
    complexity="O(1)",
    write=True,
    fast=True,
    notifies=expire_set,
)
def pexpire(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key's time to live in milliseconds; see EXPIRE.

    > SET a "1"
    OK
    > PEXPIRE a 60000
    (integer) 1
    > TTL a
    (integer) 60
    """
    return _expire(tx, args, 1, tx.now_ms, "pexpire")


@command(
    "EXPIREAT key unix-time-seconds [NX|XX|GT|LT]",
    group="generic",
    since="1.2.0",
    complexity="O(1)",
    write=True,
    fast=True,
    notifies=expire_set,
)
def expireat(tx: Transaction, args: list[bytes]) -> Reply:
    """Set when a key expires, as Unix time in seconds; see EXPIRE.

    > SET a "1"
    OK
    > EXPIREAT a 4102444800
    (integer) 1
    > PEXPIRETIME a
    (integer) 4102444800000
    """
    return _expire(tx, args, 1000, 0, "expireat")


@command(
    "PEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT]",
    group="generic",
    since="2.6.0",
    complexity="O(1)",
    write=True,
    fast=True,
    notifies=expire_set,
)
def pexpireat(tx: Transaction, args: list[bytes]) -> Reply:
    """Set when a key expires, as Unix time in milliseconds; see EXPIRE.

    > SET a "1"
    OK
    > PEXPIREAT a 4102444800123
    (integer) 1
    > PEXPIRETIME a
    (integer) 4102444800123
    """
    return _expire(tx, args, 1, 0, "pexpireat")


def _expire(tx: Transaction, args: list[bytes], unit_ms: int, start_ms: int, name: str) -> int:
    """Redis reads the options before the time, and both before it looks for the key."""
    conditions = parse_conditions(args[2:]) if len(args) > 2 else None  # most have none: 0.6 us less
    expire_ms = parse_expire_ms(args[1], unit_ms, start_ms, name)
    key = tx.find(args[0])
    if key is None or (conditions and not conditions_hold(conditions, key.own_expire_ms, expire_ms)):
        return 0
    if expire_ms <= tx.now_ms:
        tx.delete(key)
    else:
        tx.expire(key, expire_ms)
    return 1


@command("PERSIST key", group="generic", since="2.2.0", complexity="O(1)", write=True, fast=True, notifies="persist")
def persist(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove a key's time to live. Returns 1 when it had one, else 0.

    > SET a "1" EX 60
    OK
    > PERSIST a
    (integer) 1
    > PERSIST a
    (integer) 0
    > TTL a
    (integer) -1
    """
    key = tx.find(args[0])
    if key is None or key.own_expire_ms == 0:
        return 0
    tx.expire(key, 0)
    return 1


# ------------------------------------------------------------------ what is left of it


@command("TTL key", group="generic", since="1.0.0", complexity="O(1)", by_wall=True, fast=True)
def ttl(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a key's time to live in seconds, rounded; -1 when it has none, -2 when the key is absent.

    > SET a "1" PX 59500
    OK
    > TTL a
    (integer) 60
    > PERSIST a
    (integer) 1
    > TTL a
    (integer) -1
    > TTL none
    (integer) -2
    """
    left_ms = _left_ms(tx, args[0])
    return left_ms if left_ms < 0 else (left_ms + 500) // 1000


@command("PTTL key", group="generic", since="2.6.0", complexity="O(1)", by_wall=True, fast=True)
def pttl(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a key's time to live in milliseconds; -1 when it has none, -2 when the key is absent.

    > SET a "1" EX 60
    OK
    > PTTL a
    (integer) 60000
    """
    return _left_ms(tx, args[0])


def _left_ms(tx: Transaction, name: bytes) -> int:
    expire_ms = _expire_ms(tx, name)
    return expire_ms if expire_ms < 0 else expire_ms - tx.now_ms


@command("EXPIRETIME key", group="generic", since="7.0.0", complexity="O(1)", fast=True)
def expiretime(tx: Transaction, args: list[bytes]) -> Reply:
    """Return when a key expires, as Unix time in seconds, rounded; -1 for never, -2 when the key is absent.

    > SET a "1" PXAT 4102444800500
    OK
    > EXPIRETIME a
    (integer) 4102444801
    > EXPIRETIME none
    (integer) -2
    """
    expire_ms = _expire_ms(tx, args[0])
    return expire_ms if expire_ms < 0 else (expire_ms + 500) // 1000


@command("PEXPIRETIME key", group="generic", since="7.0.0", complexity="O(1)", fast=True)
def pexpiretime(tx: Transaction, args: list[bytes]) -> Reply:
    """Return when a key expires, as Unix time in milliseconds; -1 for never, -2 when the key is absent.

    > SET a "1" EXAT 4102444800
    OK
    > PEXPIRETIME a
    (integer) 4102444800000
    > PERSIST a
    (integer) 1
    > PEXPIRETIME a
    (integer) -1
    """
    return _expire_ms(tx, args[0])


def _expire_ms(tx: Transaction, name: bytes) -> int:
    key = tx.find(name)
    if key is None:
        return _NO_KEY
    return key.own_expire_ms or _NEVER
