"""Strings: the value is in the metadata record, or in fragments where it is large.

`Key.value` is the content of a string only where `Key.version` is 0: whoever wants it asks `read`. Which form it has is
the business of `Transaction.put_string` and `write_range`, which are how a string changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.batch.keys import fragments
from engine.batch.keys.fragments import Stretch, length, stretches
from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.errors import INCREMENT_OVERFLOW, NOT_AN_INTEGER, CommandError
from engine.model import STRING
from engine.values.numbers import INT_MAX, INT_MIN, parse_int

__all__ = [
    "equals",
    "increment",
    "length",
    "put_stretches",
    "put_until",
    "read",
    "read_range",
    "replace",
    "spelled",
    "stretches",
    "write_range",
]


def read(tx: Transaction, key: Key) -> bytes:
    """The whole value."""
    return read_range(tx, key, 0, key.size) if key.version else key.value


def spelled(key: Key) -> bytes:
    """The value of a string where it may spell a number: one in fragments is longer than any, and reads as empty."""
    return key.value


def equals(tx: Transaction, key: Key, value: bytes) -> bool:
    """Whether that is the whole value."""
    return length(key) == len(value) and read(tx, key) == value


def read_range(tx: Transaction, key: Key, start: int, stop: int) -> bytes:
    """The bytes `start … stop - 1`, those of them that it has. Costs what it reads."""
    content = fragments.read(key, start, stop)
    if key.version:
        tx.value_bytes += len(content)
    return content


def write_range(tx: Transaction, name: bytes, key: Key | None, offset: int, content: bytes) -> int:
    """Put `content` at `offset` into the string `key`, None for a new one. Returns its length.

    Zero bytes fill a gap behind its end. Its expire time stays. Costs what it writes, or what an inline string holds.
    """
    if key is None or not key.version:
        old, expire_ms = (b"", 0) if key is None else (key.value, key.expire_ms)
        end = offset + len(content)
        if not fragments.is_fragmented(max(end, len(old)), tx.forms):
            value = b"".join((old[:offset].ljust(offset, b"\0"), content, old[end:]))
            tx.put_string(name, value, expire_ms)
            return len(value)
        key = tx.create(name, STRING)
        tx.expire(key, expire_ms)
        _write(tx, key, 0, old)
    _write(tx, key, offset, content)
    return key.size


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


def put_stretches(tx: Transaction, name: bytes, size: int, stored: Iterable[Stretch]) -> None:
    """A string of `size` bytes that never expires in the place of whatever `name` held, given by its stretches.

    They must not be read from `name` itself while they are written.
    """
    if not fragments.is_fragmented(size, tx.forms):
        tx.put_string(name, fragments.joined(stored, 0, size))
        return
    key = tx.create(name, STRING)
    for offset, content in stored:
        _write(tx, key, offset, content)
    key.size = size


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


def _write(tx: Transaction, key: Key, offset: int, content: bytes) -> None:
    stored = fragments.write(key, offset, content)
    tx.value_bytes += stored
    tx.written_bytes += stored
