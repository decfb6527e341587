"""Finds the keys that a command modified, for WATCH and for clients that wait.

Modified is what Redis signals as modified: a key whose record or any subkey was written, even with what was there. It
does not depend on what earlier commands of the same batch wrote. While a command is observed, an `EffectObserver`
replaces the dict of keys, so that every key that the command looks at is noted before it can change; commands that
nobody observes pay nothing.
"""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.model import NONE

NOTHING: Final = 0
KEY: Final = 1
LAST_FIELD: Final = 2
FIELD: Final = 3
"""What was due of a modified key and still stored: nothing; all of it, by its own time to live; all of it, as its last
field was; fields that were replaced."""

Effect = tuple[int, bytes, int, int, int]
"""(logical database, key, type before, type after, what was due) of a key that was modified.

One that is due has the type NONE.
"""


class Noting(dict[bytes, bytes | None]):
    """The changes of a `Subkeys`, and whether one was written since `noted` was False. Verbs assign, nothing else."""

    __slots__ = ("noted",)

    def __init__(self, changes: dict[bytes, bytes | None]) -> None:
        super().__init__(changes)
        self.noted = False

    def __setitem__(self, subkey: bytes, value: bytes | None) -> None:
        self.noted = True
        super().__setitem__(subkey, value)


class EffectObserver:
    """The keys of one database, for `Transaction`, which notes what becomes of each.

    One object for all commands, as making the parts for each costs more than the rest (0.6 us).
    """

    __slots__ = ("_db", "_lost_fields", "_now_ms", "_replaced", "_seen", "done", "keys")

    def __init__(self) -> None:
        self.keys: dict[bytes, Key] = {}
        self._db = 0
        self._now_ms = 0
        self._seen: dict[Key, tuple[int, int, int, bool]] = {}
        self._lost_fields: dict[Key, None] = {}
        self._replaced: list[Subkeys] = []
        self.done: dict[bytes, tuple[bytes, ...]] = {}  # of a key: see `Lookup.note_done`

    def begin(self, now_ms: int) -> None:
        """Observe a command that runs at this log time."""
        self._now_ms = now_ms
        self._seen = {}
        self._lost_fields = {}
        self.done = {}

    def lost_field(self, key: Key) -> None:
        """The command replaces a field of a hash that is due."""
        self._lost_fields[key] = None

    def turn_to(self, db: int, keys: dict[bytes, Key]) -> None:
        """From now on the command looks at the keys of this logical database."""
        self._db = db
        self.keys = keys

    def effects(self) -> list[Effect]:
        """The keys that were modified, in the order in which the command looked at them. To be called once."""
        effects = []
        for key, (db, type_before, due, was_changed) in self._seen.items():
            if key.changed or _has_writes(key):
                type_after = NONE if 0 < key.expire_ms <= self._now_ms else key.type
                effects.append((db, key.name, type_before, type_after, FIELD if key in self._lost_fields else due))
            if was_changed:
                key.changed = True
        return effects

    def forget(self) -> None:
        """The batch is written, or thrown away: its collections need not note their writes any more."""
        for subkeys in self._replaced:
            subkeys.changed = {}
        self._replaced.clear()
        self._seen = {}
        self._lost_fields = {}

    # ------------------------------------------------------------------ the dict's place

    def get(self, name: bytes) -> Key | None:
        """The key `name` if the overlay has it."""
        key = self.keys.get(name)
        if key is not None and key not in self._seen:
            self._note(key)
        return key

    def __setitem__(self, name: bytes, key: Key) -> None:
        self.keys[name] = key
        self._note(key)

    def __contains__(self, name: bytes) -> bool:
        return name in self.keys

    # ------------------------------------------------------------------ inside

    def _note(self, key: Key) -> None:
        """Remember what `key` is before the command changes it."""
        type_code, due = key.type, NOTHING
        if 0 < key.expire_ms <= self._now_ms:
            type_code, due = NONE, KEY if 0 < key.own_expire_ms <= self._now_ms else LAST_FIELD
        self._seen[key] = self._db, type_code, due, key.changed
        key.changed = False
        for subkeys in key.families():
            self._note_writes(subkeys)

    def _note_writes(self, subkeys: Subkeys) -> None:
        if isinstance(subkeys.changed, Noting):
            subkeys.changed.noted = False
        else:
            subkeys.changed = Noting(subkeys.changed)  # once for each collection and batch
            self._replaced.append(subkeys)


def _has_writes(key: Key) -> bool:
    """Whether a subkey was written; a collection that the command itself made is `changed` anyway."""
    changes = [subkeys.changed for subkeys in key.families()]
    return any(isinstance(changed, Noting) and changed.noted for changed in changes)
