"""Hashes: field -> value in the data column family.

A verb that empties a hash deletes its key, as Redis does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.key import Key
from engine.layouts.base import HASH
from engine.transaction import Transaction
from engine.types import subkeys


def put(tx: Transaction, name: bytes, key: Key | None, pairs: Sequence[bytes]) -> int:
    """Write the fields and values that alternate in `pairs` to `key`, None for a new one. Returns how many are new.

    The metadata record is written only when the size changes.
    """
    if key is None:
        key = tx.create(name, HASH)
    get, changed = key.data.get, key.data.changed
    added = 0
    for field, value in zip(pairs[::2], pairs[1::2], strict=True):
        if get(field) is None:
            added += 1
        changed[field] = value
    if added:
        key.size += added
        key.changed = True
    return added


def put_one(tx: Transaction, name: bytes, key: Key | None, field: bytes, value: bytes, is_new: bool) -> None:
    """Write one field to `key` (None: there is none yet) where the caller has already seen whether it `is_new`.

    Hot path, so `is_new` may be given by position: a keyword costs 0.05 us.
    """
    if key is None:
        key = tx.create(name, HASH)
    key.data.changed[field] = value
    if is_new:
        key.size += 1
        key.changed = True


def get(key: Key | None, field: bytes) -> bytes | None:
    """The value of `field`; None when it, or the whole hash, is absent."""
    return None if key is None else key.data.get(field)


def remove(tx: Transaction, key: Key, fields: Iterable[bytes]) -> int:
    """Delete `fields`. Returns how many were there."""
    return subkeys.remove(tx, key, fields)


def items(key: Key) -> Iterator[tuple[bytes, bytes]]:
    """All (field, value) pairs, in the order of the fields' bytes."""
    return key.data.scan()
