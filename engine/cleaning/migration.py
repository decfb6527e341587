"""Moves the strings that are still in earlier records into the form of the layout, in bounded slices.

Physical only, as all cleaning: no reply and no digest changes. Each slice is one batch, which writes the new record of
a string and deletes the earlier one. A migration that was broken off goes on where it ended: what is moved is not found
again. When nothing is left, the mark goes by which the state is asked for earlier records (engine/tables/adoption.py).
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from engine.apply.machine import Machine
from engine.layouts.records import earlier_keys
from engine.store.store import Changes, Store
from engine.tables.adoption import unmark

_VALUE_BYTES_MAX: Final = 4 * 1024 * 1024


class Migration:
    """Moves the strings of one partition.

    Args:
        machine: of the partition, whose layout may have earlier records; nothing else may write to its store.
        store: of the machine.
    """

    def __init__(self, machine: Machine, store: Store) -> None:
        self._machine = machine
        self._store = store
        self._at = b""
        self._is_done = False

    def step(self, strings_max: int) -> int:
        """Move up to `strings_max` strings, fewer where they are long. Returns how many; 0: none is left.

        The first batch of a state that is taken over also says that it is of the new layout, with or without strings.

        Raises:
            ValueError: the machine is not settled.
            StoreBusyError: nothing was written; call again.
            CorruptionError: a string is there twice, or cannot be read.
            Exception: as `Machine.commit`.
        """
        tx, layout = self._machine.begin_cleaning(), self._machine.layout
        moved, at = 0, self._at
        try:
            for at in islice(earlier_keys(self._store, layout, self._at), strings_max):
                stored_db, _, name = layout.parse_metadata_key(at)
                tx.select(tx.stored_dbs.index(stored_db))
                tx.move(name)
                moved += 1
                if tx.value_bytes > _VALUE_BYTES_MAX:
                    break
            self._machine.commit(None)
        except Exception:
            self._machine.rollback()
            raise
        self._at, self._is_done = at, not moved
        return moved

    def finish(self) -> None:
        """Take the mark away, after `step` has returned 0.

        Raises:
            ValueError: it has not.
            StoreBusyError: nothing was written; call again.
        """
        if not self._is_done:
            raise ValueError("strings may be left to move")
        changes = Changes()
        unmark(changes)
        self._store.write(changes)
