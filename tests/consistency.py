"""The audit as a list, for tests: a consistent state has no violation."""

from __future__ import annotations

from engine.proof.audit import Audit
from engine.store.store import Store
from engine.tables.system import Home, read_home
from tests.layouts import home_of


def problems(store: Store, home: Home | None = None) -> list[str]:
    """What is wrong with the records of `store`, after a commit; empty when nothing is.

    Args:
        store: of one partition.
        home: what it is the state of; None: what it says itself, or as `home_of()` before the first batch has said it.
    """
    return [str(violation) for violation in Audit(store, home or read_home(store) or home_of()).violations()]
