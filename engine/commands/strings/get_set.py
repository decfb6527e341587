"""Commands that set and get whole strings. Source: https://valkey.io/commands/#string.

`changes.py` has commands that count, and those that change a part of a string.
"""

from __future__ import annotations

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.expire_options import (
    GETEX_OPTIONS,
    SET_OPTIONS,
    StringOptions,
    parse_positive_expire_ms,
    parse_string_options,
)
from engine.commands.key_access import Access
from engine.commands.keyspace_events import deleted
from engine.commands.registry import command
from engine.commands.strings.notifications import of_getex, of_mset, of_set, of_setex
from engine.errors import REPLY_TOO_LARGE, WRONG_TYPE, CommandError
from engine.limits import REPLY_BYTES_MAX
from engine.model import STRING
from engine.types.string import strings
from engine.values.replies import OK, Reply
from slotlog.shared.errors import wrong_arity

# ------------------------------------------------------------------ one value


def _access_of_set(args: list[bytes]) -> Access:
    """It also reads when it answers the old value; what IFEQ tells of it counts for nothing, as in valkey."""
    return ("RW", "access", "update") if any(arg.upper() == b"GET" for arg in args[2:]) else ("OW", "update")


@command(
    "SET key value [NX|XX|IFEQ comparison-value] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|"
    "PXAT unix-time-milliseconds|KEEPTTL]",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="RW access update variable_flags",
    access_by=_access_of_set,
    notifies=of_set,
)
def set_(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key to a string, whatever its type. If a condition does not hold, nothing changes and the reply is nil.

    > SET a "1"
    OK
    > SET a "2" NX
    (nil)
    > SET a "3" XX GET EX 60
    "1"
    > TTL a
    (integer) 60
    > SET a "4" IFEQ "3" KEEPTTL
    OK
    > TTL a
    (integer) 60
    """
    if len(args) == 2:  # the hot path: nothing to parse, nothing to look at
        tx.put_string(args[0], args[1])
        return OK
    return _set_with_options(tx, args[0], args[1], parse_string_options(args[2:], SET_OPTIONS, tx.now_ms, "set"))


def _set_with_options(tx: Transaction, name: bytes, value: bytes, options: StringOptions) -> Reply:
    key = tx.find(name)
    if key is not None and key.type != STRING and (options.get or options.condition == b"IFEQ"):
        raise CommandError(WRONG_TYPE)
    old = strings.read(tx, key) if options.get and key is not None else None
    if not _condition_holds(tx, options, key):
        return old
    expire_ms = options.expire_ms
    if key is not None and options.lifetime == b"KEEPTTL":
        expire_ms = key.own_expire_ms
    strings.put_until(tx, name, key, value, expire_ms)
    return old if options.get else OK


def _condition_holds(tx: Transaction, options: StringOptions, key: Key | None) -> bool:
    if options.condition == b"NX":
        return key is None
    if options.condition == b"XX":
        return key is not None
    return options.condition != b"IFEQ" or (key is not None and strings.equals(tx, key, options.comparison))


@command(
    "SETNX key value",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="OW insert",
    notifies="set",
)
def setnx(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key to a string if the key is absent. Returns 1 when it was set, else 0.

    > SETNX a "1"
    (integer) 1
    > SETNX a "2"
    (integer) 0
    > GET a
    "1"
    """
    if tx.find(args[0]) is not None:
        return 0
    tx.put_string(args[0], args[1])
    return 1


@command(
    "SETEX key seconds value",
    group="string",
    since="2.0.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="OW update",
    notifies=of_setex,
)
def setex(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key to a string with a time to live in seconds.

    > SETEX a 60 "1"
    OK
    > TTL a
    (integer) 60
    > SETEX a 0 "1"
    (error) ERR invalid expire time in 'setex' command
    """
    tx.put_string(args[0], args[2], parse_positive_expire_ms(args[1], 1000, tx.now_ms, "setex"))
    return OK


@command(
    "PSETEX key milliseconds value",
    group="string",
    since="2.6.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="OW update",
    notifies=of_setex,
)
def psetex(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key to a string with a time to live in milliseconds.

    > PSETEX a 60000 "1"
    OK
    > TTL a
    (integer) 60
    """
    tx.put_string(args[0], args[2], parse_positive_expire_ms(args[1], 1, tx.now_ms, "psetex"))
    return OK


@command("GET key", group="string", since="1.0.0", complexity="O(1)", fast=True)
def get(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the value of a string, or nil.

    > SET a "1"
    OK
    > GET a
    "1"
    > GET none
    (nil)
    """
    key = tx.find_typed(args[0], STRING)
    if key is None:
        return None
    return strings.read(tx, key) if key.version else key.value


@command(
    "GETSET key value",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    large_reply=True,
    notifies="set",
)
def getset(tx: Transaction, args: list[bytes]) -> Reply:
    """Set a key to a string without time to live. Returns the old string, or nil.

    > GETSET a "1"
    (nil)
    > GETSET a "2"
    "1"
    """
    key = tx.find_typed(args[0], STRING)
    old = None if key is None else strings.read(tx, key)
    tx.put_string(args[0], args[1])
    return old


@command(
    "GETDEL key",
    group="string",
    since="6.2.0",
    complexity="O(1)",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies=deleted,
)
def getdel(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete a string. Returns its value, or nil.

    > SET a "1"
    OK
    > GETDEL a
    "1"
    > GETDEL a
    (nil)
    """
    key = tx.find_typed(args[0], STRING)
    if key is None:
        return None
    value = strings.read(tx, key)
    tx.delete(key)
    return value


@command(
    "DELIFEQ key value",
    group="string",
    since="9.0.0",
    complexity="O(length)",
    write=True,
    fast=True,
    access="RM delete",
    notifies=deleted,
)
def delifeq(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete a string if it has that value. Returns 1 when it was deleted, else 0.

    > SET a "1"
    OK
    > DELIFEQ a "2"
    (integer) 0
    > DELIFEQ a "1"
    (integer) 1
    """
    key = tx.find_typed(args[0], STRING)
    if key is None or not strings.equals(tx, key, args[1]):
        return 0
    tx.delete(key)
    return 1


@command(
    "GETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]",
    group="string",
    since="6.2.0",
    complexity="O(1)",
    write=True,
    fast=True,
    access="RW access update",
    large_reply=True,
    notifies=of_getex,
)
def getex(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the value of a string, or nil, and set its time to live; PERSIST removes it.

    > SET a "1"
    OK
    > GETEX a EX 60
    "1"
    > TTL a
    (integer) 60
    > GETEX a PERSIST
    "1"
    > TTL a
    (integer) -1
    """
    options = parse_string_options(args[1:], GETEX_OPTIONS, tx.now_ms, "getex")
    key = tx.find_typed(args[0], STRING)
    if key is None:
        return None
    value = strings.read(tx, key)
    if 0 < options.expire_ms <= tx.now_ms:
        tx.delete(key)
    elif options.expire_ms or (options.lifetime and key.expire_ms):
        tx.expire(key, options.expire_ms)
    return value


# ------------------------------------------------------------------ several values


@command(
    "MGET key [key ...]",
    group="string",
    since="1.0.0",
    complexity="O(keys)",
    fast=True,
    tips=("request_policy:multi_shard",),
)
def mget(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the values of several strings; nil for a key that is absent or of another type.

    > MSET a "1" b "2"
    OK
    > MGET a none b
    1) "1"
    2) (nil)
    3) "2"
    """
    values: list[bytes | None] = []
    room = REPLY_BYTES_MAX
    for name in args:
        key = tx.find(name)
        if key is None or key.type != STRING:
            values.append(None)
            continue
        room -= strings.length(key)
        if room < 0 and len(args) > 1:  # before it is read: a large one costs nothing to make
            raise CommandError(REPLY_TOO_LARGE)
        values.append(strings.read(tx, key))
    return values


@command(
    "MSET key value [key value ...]",
    group="string",
    since="1.0.1",
    complexity="O(keys)",
    write=True,
    grows=True,
    access="OW update",
    tips=("request_policy:multi_shard", "response_policy:all_succeeded"),
    notifies=of_mset,
)
def mset(tx: Transaction, args: list[bytes]) -> Reply:
    """Set several keys to strings.

    > MSET a "1" b "2"
    OK
    > MGET a b
    1) "1"
    2) "2"
    """
    if len(args) % 2:
        raise CommandError(wrong_arity("mset"))
    _put_all(tx, args)
    return OK


@command(
    "MSETNX key value [key value ...]",
    group="string",
    since="1.0.1",
    complexity="O(keys)",
    write=True,
    grows=True,
    access="OW insert",
    notifies=of_mset,
)
def msetnx(tx: Transaction, args: list[bytes]) -> Reply:
    """Set several keys to strings if all are absent. Returns 1 when they were set, else 0.

    > MSETNX a "1" b "2"
    (integer) 1
    > MSETNX b "3" c "4"
    (integer) 0
    > EXISTS c
    (integer) 0
    """
    if len(args) % 2:
        raise CommandError(wrong_arity("msetnx"))
    if any(tx.find(name) is not None for name in args[::2]):
        return 0
    _put_all(tx, args)
    return 1


def _put_all(tx: Transaction, pairs: list[bytes]) -> None:
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        tx.put_string(name, value)
