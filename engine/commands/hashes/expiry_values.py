"""Commands that set or get fields together with their times to live. Source: https://valkey.io/commands/#hash."""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.hashes.field_options import (
    HGETEX_OPTIONS,
    HSETEX_OPTIONS,
    counted,
    parse_options,
    plain_fields,
    split_behind_key,
)
from engine.commands.hashes.notifications import of_hgetex, of_hsetex
from engine.commands.registry import command
from engine.layouts.layout import Form
from engine.model import HASH
from engine.types.hash import field_expiry, hash_fields
from engine.values.replies import Reply

_COMPLEXITY: Final = "O(fields)"
_TIMES: Final = "EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds"


@command(
    f"HSETEX key [NX|XX] [FNX|FXX] [{_TIMES}|KEEPTTL] FIELDS numfields field value [field value ...]",
    group="hash",
    since="8.0.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies=of_hsetex,
)
def hsetex(tx: Transaction, args: list[bytes]) -> Reply:
    """Set fields and their time to live. Returns 1, or 0 when a condition does not hold and nothing is set.

    Without an option the fields live for ever, with KEEPTTL each as long as before; with a time that has come they are
    deleted. NX: there is no such key; XX: there is; FNX: there is none of the fields; FXX: all are there.

    > HSETEX h EX 60 FIELDS 2 a "1" b "2"
    (integer) 1
    > HSETEX h FNX FIELDS 2 b "3" c "4"
    (integer) 0
    > HSETEX h KEEPTTL FIELDS 2 b "3" c "4"
    (integer) 1
    > HTTL h FIELDS 2 b c
    1) (integer) 60
    2) (integer) -1
    """
    words, behind = split_behind_key(args)
    options = parse_options(words, HSETEX_OPTIONS)
    pairs = counted(behind, width=2)
    name, fields = args[0], pairs[::2]
    key = tx.find_typed(name, HASH)
    if options.of_key and (key is None) is (options.of_key == b"XX"):
        return 0
    expire_ms = options.expire_ms(tx.now_ms, "hsetex")
    wrong = options.of_fields == b"FXX"
    if options.of_fields and any((hash_fields.get(tx, key, field) is None) is wrong for field in fields):
        return 0
    if expire_ms is not None and expire_ms > tx.now_ms:
        tx.require(Form.FIELD_TIMES)
    if key is None:
        key = tx.create(name, HASH)
    if options.lifetime == b"KEEPTTL":
        field_expiry.put(tx, key, zip(fields, pairs[1::2], strict=True), None)
    elif expire_ms is None or expire_ms <= tx.now_ms:
        hash_fields.put(tx, name, key, pairs)
        if expire_ms is not None:  # set and gone: that modifies the key, as Redis has it
            hash_fields.remove(tx, key, fields)
    else:
        field_expiry.put(tx, key, zip(fields, pairs[1::2], strict=True), expire_ms)
    return 1


@command(
    f"HGETEX key [{_TIMES}|PERSIST] FIELDS numfields field [field ...]",
    group="hash",
    since="8.0.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    access="RW access update",
    large_reply=True,
    notifies=of_hgetex,
)
def hgetex(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the values of fields, nil for an absent one, and set their time to live; PERSIST removes it.

    A time that has come deletes the fields.

    > HSET h a "1" b "2"
    (integer) 2
    > HGETEX h EX 60 FIELDS 2 a none
    1) "1"
    2) (nil)
    > HTTL h FIELDS 2 a b
    1) (integer) 60
    2) (integer) -1
    """
    words, behind = split_behind_key(args)
    options = parse_options(words, HGETEX_OPTIONS)
    fields = counted(behind)
    key = tx.find_typed(args[0], HASH)
    expire_ms = options.expire_ms(tx.now_ms, "hgetex")
    if key is not None and expire_ms is not None and expire_ms <= tx.now_ms:
        return _take(tx, key, fields)
    values: list[Reply] = [hash_fields.get(tx, key, field) for field in fields]
    if key is not None and expire_ms is not None:
        field_expiry.expire(tx, key, fields, expire_ms, lambda _: True)
    elif key is not None and options.lifetime:
        field_expiry.persist(tx, key, fields)
    return values


@command(
    "HGETDEL key FIELDS numfields field [field ...]",
    group="hash",
    since="8.0.0",
    complexity=_COMPLEXITY,
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="hdel",
)
def hgetdel(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete fields and return their values, nil for an absent one.

    > HSET h a "1" b "2"
    (integer) 2
    > HGETDEL h FIELDS 2 a none
    1) "1"
    2) (nil)
    > HGETALL h
    1) "b"
    2) "2"
    """
    fields = plain_fields(args)
    key = tx.find_typed(args[0], HASH)
    return [None] * len(fields) if key is None else _take(tx, key, fields)


def _take(tx: Transaction, key: Key, fields: list[bytes]) -> list[Reply]:
    """The values of fields, which are deleted: one that is named twice is not there the second time."""
    values = {field: hash_fields.get(tx, key, field) for field in fields}
    hash_fields.remove(tx, key, [field for field, value in values.items() if value is not None])
    return [values.pop(field, None) for field in fields]
