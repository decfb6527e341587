"""A key's content under another name or in another database.

Every record of a collection begins with its name, so all of them are written anew: O(elements). Memory holds a few MiB
of them at a time (engine/staging.py).
"""

from __future__ import annotations

from engine.key import Key
from engine.transaction import Transaction
from engine.types import field_times


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
        field_times.fill_copy(tx, key, source)
        return
    for mine, its in zip(key.families(), source.families(), strict=True):
        tx.fill(key, mine, its.scan())
