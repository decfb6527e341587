"""What every state must keep to, whatever was applied: the audit, as a list."""

from __future__ import annotations

from engine.layouts.neokv import NeoKV
from engine.proof.audit import Audit
from engine.store.store import Store
from engine.tables.system import Home, read_home


def problems(store: Store, layout: NeoKV) -> list[str]:
    """What is wrong with the records of `store`, after a commit; empty when nothing is."""
    home = read_home(store) or Home("nothing applied yet", layout._partition, 1, layout.name)
    return [str(violation) for violation in Audit(store, home).violations()]
