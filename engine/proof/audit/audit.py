"""Audits one state, part by part: a part that cannot be read does not stop the others."""

from __future__ import annotations

from engine.proof.audit.expiry import check_expiry
from engine.proof.audit.keys import Advance, KeyAudit
from engine.proof.audit.strays import check_index, check_shadowed, check_strays
from engine.proof.audit.system import check_dedup, check_local, check_system, check_watches
from engine.proof.audit.versions import check_versions
from engine.proof.audit.violation import State, Violation, Violations
from engine.store.store import DEDUP_CF, EXPIRY_CF, GRAVEYARD_CF, LOCAL_CF, SYSTEM_CF, Store, is_damage
from engine.tables.adoption import open_layout
from engine.tables.system import Home


class Audit:
    """Every violation in one state, which must not be written to meanwhile.

    Args:
        store: the state.
        home: what it is the state of.
        advance: for progress.
    """

    def __init__(self, store: Store, home: Home, advance: Advance = lambda _: None) -> None:
        self._state = State(store, home, open_layout(store, home))
        self._advance = advance

    @property
    def keys(self) -> int:
        """How many keys were looked at so far, due ones included."""
        return self._state.keys

    def violations(self) -> Violations:
        """All of them, each as soon as it is found."""
        state = self._state
        keys = KeyAudit(state, self._advance)
        parts = (
            (SYSTEM_CF, check_system(state)),
            (SYSTEM_CF, check_watches(state)),
            (DEDUP_CF, check_dedup(state)),
            (LOCAL_CF, check_local(state)),
            (GRAVEYARD_CF, keys.graves.check()),
            (state.metadata_cf, check_strays(state)),
            (state.metadata_cf, check_index(state)),
            (state.metadata_cf, check_shadowed(state)),
            (state.metadata_cf, keys.check()),
            (EXPIRY_CF, check_expiry(state)),
            (GRAVEYARD_CF, check_versions(state, keys.graves)),
        )
        for column_family, part in parts:
            try:
                yield from part
            except Exception as error:
                if not is_damage(error):
                    raise
                yield Violation("unreadable", column_family, b"", f"some records cannot be read at all: {error}")
