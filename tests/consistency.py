"""The audit as a list, for tests: a consistent state has no violation."""

from __future__ import annotations

from engine.proof.audit import Audit
from engine.store.store import Store
from engine.tables.system import read_home
from tests.layouts import home_of


def problems(store: Store) -> list[str]:
    """What is wrong with the records of `store`, after a commit; empty when nothing is."""
    return [str(violation) for violation in Audit(store, read_home(store) or home_of()).violations()]
