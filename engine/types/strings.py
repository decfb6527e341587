"""Strings: the value stands in the metadata record itself, beside the expire time."""

from __future__ import annotations

from engine.errors import INCREMENT_OVERFLOW, NOT_AN_INTEGER, CommandError
from engine.key import Key
from engine.layouts.base import STRING
from engine.numbers import INT_MAX, INT_MIN, parse_int
from engine.transaction import Transaction


def put_until(tx: Transaction, name: bytes, key: Key | None, value: bytes, expire_ms: int) -> None:
    """A string in the place of `key`, which `find` gave for `name`. It dies at `expire_ms`, 0 for never.

    When that time has come already, nothing is written and the old key goes, whatever its type.
    """
    if not 0 < expire_ms <= tx.now_ms:
        tx.put_string(name, value, expire_ms)
    elif key is not None:
        tx.delete(key)


def replace(tx: Transaction, name: bytes, key: Key | None, value: bytes) -> None:
    """A new value for the string `key` (None: there is none yet) that leaves its expire time as it is."""
    tx.put_string(name, value, 0 if key is None else key.expire_ms)


def increment(tx: Transaction, name: bytes, amount: int) -> int:
    """Add `amount` to the integer that `name` spells, 0 when there is no key. Returns the sum. The expire time stays.

    Hot path: an existing key is changed in place, so it is looked up once. Its few digits need not be counted again in
    `tx.value_bytes`.

    Raises:
        CommandError: WRONGTYPE, not an integer, or the sum is out of range.
    """
    key = tx.find_typed(name, STRING)
    if key is None:
        tx.put_string(name, b"%d" % amount)
        return amount
    value = parse_int(key.value)
    if value is None:
        raise CommandError(NOT_AN_INTEGER)
    value += amount
    if not INT_MIN <= value <= INT_MAX:
        raise CommandError(INCREMENT_OVERFLOW)
    key.value = b"%d" % value
    key.changed = True
    return value
