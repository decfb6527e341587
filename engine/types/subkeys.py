"""Adds, removes and counts the subkeys of hashes and sets."""

from __future__ import annotations

from collections.abc import Iterable

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction


def remove(tx: Transaction, key: Key, subkeys: Iterable[bytes]) -> int:
    """Delete `subkeys`, and the key with the last of them. Returns how many were there."""
    data = key.data
    removed = 0
    for subkey in subkeys:
        if data.before_remove(subkey) is not None:
            data.remove(subkey)
            removed += 1
    if removed:
        key.size -= removed
        key.changed = True
        if key.size == 0:
            tx.delete(key)
    return removed
