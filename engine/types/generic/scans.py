"""One call of SCAN or its relatives: the next keys of a database, or the next subkeys of a collection.

What a cursor is and what it guarantees, `engine.batch.cursors` says. A cursor of SCAN is `[slot:14][digest:39]`; with
the digest 0 it stands at the beginning of the slot. Most do: a call goes on to the end of a slot that has few keys
left. Where keys do not lie by slot, the layout says which slot stands for a place among them (`Layout.cursor_slot`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.batch.cursors import DIGEST_BITS, search
from engine.batch.keys.key import Key
from engine.batch.keyspace import Keyspace, StoredKey
from engine.batch.transaction import Transaction
from engine.values.replies import bounded, pairs_bytes
from slotlog.shared.limits import SLOTS

_SURPLUS_MAX: Final = 64
_AT_ONCE: Final = 128


def cursor_at(slot: int) -> int:
    """The cursor of SCAN that stands at the beginning of `slot`: how a scan enters another partition's slots."""
    return slot << DIGEST_BITS


def slot_of(cursor: int) -> int:
    """The slot in which a cursor of SCAN stands; not below `slotlog.shared.limits.SLOTS` when SCAN did not make it."""
    return cursor >> DIGEST_BITS


def keys(tx: Transaction, cursor: int, count: int, is_wanted: Callable[[StoredKey], bool]) -> tuple[int, list[bytes]]:
    """Look at `count` keys from `cursor` on, or at up to 64 more where a slot ends with them.

    Returns the cursor of the next call, 0 at the end, and the names of those that are wanted.
    """
    slot = slot_of(cursor)
    if slot >= SLOTS:
        return 0, []
    names: list[bytes] = []
    last_slot, last = slot, b""
    keyspace = tx.keyspace()
    for looked_at, entry in enumerate(keyspace.scan(_start_of_keys(keyspace, tx, cursor))):
        entry_slot = keyspace.slot_of(entry)
        if looked_at >= count:
            if entry_slot != last_slot:
                return cursor_at(entry_slot), names
            if looked_at >= count + _SURPLUS_MAX and (number := tx.cursors.make((tx.stored_db, last_slot), last)):
                return cursor_at(last_slot) | number, names
        last_slot, last = entry_slot, entry.position
        if is_wanted(entry):
            names.append(entry.name)
    return 0, names


def _start_of_keys(keyspace: Keyspace, tx: Transaction, cursor: int) -> bytes:
    """The position at which the keys behind `cursor` begin."""
    slot, number = slot_of(cursor), cursor & ((1 << DIGEST_BITS) - 1)
    start = keyspace.start_of(slot)
    if not number:
        return start
    others = (position for position, _ in keyspace.records.scan(start, keyspace.end_of(slot)))
    last = tx.cursors.find((tx.stored_db, slot), number, others)
    return start if last is None else last + b"\0"


def subkeys(tx: Transaction, key: Key, cursor: int, count: int) -> tuple[int, list[tuple[bytes, bytes]]]:
    """`count` subkeys from `cursor` on with their values, or all of up to 128, as Redis gives its small collections.

    Returns the cursor of the next call, 0 at the end, and what was found.
    """
    space = (-1, key.version)
    if not key.has_more_than(_AT_ONCE):
        count = max(count, _AT_ONCE)
    last = tx.cursors.find(space, cursor, (subkey for subkey, _ in key.data.scan())) if cursor else None
    found: list[tuple[bytes, bytes]] = []
    for subkey, value in key.data.scan(b"" if last is None else last + b"\0"):
        if len(found) >= count and (number := tx.cursors.make(space, found[-1][0])):
            return number, found
        found.append((subkey, value))
    return 0, found


def rest(key: Key, cursor: int) -> list[tuple[bytes, bytes]]:
    """All subkeys from `cursor` on with their values, whatever this process remembers of earlier calls.

    Raises:
        CommandError: together they are larger than a reply may be.
    """
    last = search(cursor, (subkey for subkey, _ in key.data.scan())) if cursor else None
    return bounded(key.data.scan(b"" if last is None else last + b"\0"), pairs_bytes)
