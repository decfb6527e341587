"""The audit reports records that lie between the kinds of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.proof.audit.strays import check_strays
from engine.proof.audit.violation import State
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from engine.tables.system import Home


class Tagged(NeoKV):
    """Two kinds in one column family, told apart by their first byte, and one that has its family alone."""

    families: ClassVar[Mapping[Kind, str]] = {Kind.METADATA: "both", Kind.DATA: "both", Kind.SCORES: "alone"}

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """A letter, where the family is shared."""
        return {Kind.METADATA: b"m", Kind.DATA: b"d"}.get(kind, b"")


@pytest.mark.parametrize(
    ("record", "is_stray"),
    [(b"c", True), (b"d", False), (b"d9", False), (b"e", True), (b"m\xff", False), (b"n", True), (b"", True)],
)
def test_records_between_the_kinds_are_found(record: bytes, is_stray: bool) -> None:
    """Before the first kind, between two and behind the last one; in a family of one kind there is no between."""
    store, changes = MemoryStore(["both", "alone"]), Changes()
    changes.of("both")[record] = b""
    changes.of("alone")[record] = b""
    store.write(changes)

    found = list(check_strays(State(store, Home("topic", 0, 1, "neokv"), Tagged(0))))
    assert ([("both", record)] if is_stray else []) == [(each.column_family, each.record) for each in found]
    assert {"unreadable"} >= {each.kind for each in found}
