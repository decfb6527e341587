"""Hashes: a record for each field. `field_times` has the fields with a time to live.

A verb that empties a hash deletes its key, as Redis does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.model import HASH
from engine.types import subkeys
from engine.types.hash import field_expiry


def put(tx: Transaction, name: bytes, key: Key | None, pairs: Sequence[bytes]) -> int:
    """Write the fields and values that alternate in `pairs` to `key`, None for a new one. Returns how many are new.

    A field that is written has no time to live any more. The metadata record is written only when the size changes.
    """
    if key is None:
        key = tx.create(name, HASH)
        if not key.size:  # it is counted, and nothing is there: no look at each field, 0.5 us for five
            fields = key.data.changed
            fields.update(zip(pairs[::2], pairs[1::2], strict=True))
            key.size = len(fields)
            return key.size
    elif key.times is not None:
        return field_expiry.put(tx, key, zip(pairs[::2], pairs[1::2], strict=True))
    data, changed = key.data, key.data.changed
    added = 0
    for field, value in zip(pairs[::2], pairs[1::2], strict=True):
        if data.before_put(field) is None:
            added += 1
        changed[field] = value
    if added:
        key.size += added
        key.changed = True
    return added


def put_single(tx: Transaction, name: bytes, field: bytes, value: bytes) -> int:
    """As `put` with one field, to the hash `name`. Hot path: without a loop and a call, 0.3 us of 1.3.

    Raises:
        CommandError: WRONGTYPE.
    """
    key = tx.find_to_write(name, HASH) or tx.create(name, HASH)
    if key.times is not None:
        return put(tx, name, key, (field, value))
    subkeys = key.data
    if subkeys.before_put(field) is not None:
        subkeys.changed[field] = value
        return 0
    subkeys.changed[field] = value
    key.size += 1
    key.changed = True
    return 1


def put_one(tx: Transaction, name: bytes, key: Key | None, field: bytes, value: bytes, is_new: bool) -> None:
    """Write one field to `key` (None: there is none yet) where the caller has already seen whether it `is_new`.

    Its time to live stays. Hot path, so `is_new` may be given by position: a keyword costs 0.05 us.
    """
    if key is None:
        key = tx.create(name, HASH)
    elif key.times is not None:
        field_expiry.put(tx, key, [(field, value)], None)
        return
    key.data.changed[field] = value
    if is_new:
        key.size += 1
        key.changed = True


def get(tx: Transaction, key: Key | None, field: bytes) -> bytes | None:
    """The value of `field`; None when it is due, or it or the whole hash is absent."""
    if key is None:
        return None
    return key.data.get(field) if key.times is None else field_expiry.get(tx, key, field)


def remove(tx: Transaction, key: Key, fields: Iterable[bytes]) -> int:
    """Delete `fields`. Returns how many were there."""
    return subkeys.remove(tx, key, fields) if key.times is None else field_expiry.remove(tx, key, fields)


def find(tx: Transaction, name: bytes) -> Key | None:
    """The hash `name` without the fields that are due, for who reads few of them: to be read, not to be changed.

    Raises:
        CommandError: WRONGTYPE.
    """
    key = tx.find_typed(name, HASH)
    return key if key is None or key.times is None else field_expiry.living_few(tx, key)


def items(tx: Transaction, key: Key) -> Iterator[tuple[bytes, bytes]]:
    """All (field, value) pairs, in the order of the fields' bytes."""
    return (key if key.times is None else field_expiry.living(tx, key)).data.scan()
