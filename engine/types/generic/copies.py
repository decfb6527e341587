"""Copies or moves a key's content to another name or database.

Every record of a collection begins with its name, so all of them are written anew: O(elements). Memory holds a few MiB
of them at a time (engine/batch/staging.py).
"""

from __future__ import annotations

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.types.hash import field_expiry


def copy(tx: Transaction, source: Key, name: bytes) -> None:
    """What `source` holds, and its expire time, as `name` in the database that `tx` has selected.

    It takes the place of whatever `name` held there, which must not be `source` itself. Fields that are due are
    left out.
    """
    if not source.version:
        tx.put_string(name, source.value, source.expire_ms)
        return
    key = tx.create_copy(name, source)
    if source.times is not None:
        field_expiry.fill_copy(tx, key, source)
        return
    for mine, its in zip(key.families(), source.families(), strict=True):
        tx.fill(key, mine, its.scan())
