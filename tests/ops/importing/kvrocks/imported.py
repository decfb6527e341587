"""Applies what a source gives to a state in memory, and shows the state as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.apply.machine import Machine
from engine.model import HASH, STRING, ZSET
from engine.proof.walk import live_keys
from engine.store.memory import MemoryStore
from engine.values.encoding import parse_score
from ops.importing.kvrocks.source import KvrocksSource
from ops.importing.source import ImportKey, LeftOut, Options
from tests.engine.harness import apply, new_store, open_machine

NOW_MS = 1_800_000_000_000
"""The time of the import: of Kvrocks' rule for what has expired, and of the events."""


@dataclass
class Imported:
    """The end of an import.

    Attributes:
        machine, store: the state.
        keys: what the source gave, in order.
        left_out: what it named.
        notes: what it said at the end.
    """

    machine: Machine
    store: MemoryStore
    keys: list[ImportKey] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def state(self) -> dict[tuple[int, bytes], Any]:
        """(db, name) -> (type code, expire_ms, value) of each live key."""
        keys = live_keys(self.store, self.machine.layout, self.machine.clock_ms)
        return {
            (key.db, key.name): (key.type, key.expire_ms, plain(key.type, list(key.content)), dict(key.field_times))
            for key in keys
        }

    @property
    def values(self) -> dict[bytes, Any]:
        """The value of each key of database 0."""
        return {name: value for (db, name), (_, _, value, _) in self.state.items() if db == 0}


def plain(kind: int, pieces: list[bytes]) -> Any:
    """The content of a key as a value of Python."""
    if kind == STRING:
        return pieces[0]
    if kind == HASH:
        return dict(zip(pieces[::2], pieces[1::2], strict=True))
    if kind == ZSET:
        return dict(zip(pieces[::2], map(parse_score, pieces[1::2]), strict=True))
    return pieces


def options(layout: str = "kvrocks", **more: Any) -> Options:
    """The options of an import."""
    defaults: Mapping[str, Any] = {"progress": None, "databases": frozenset(), "partitions": 1, "once": True}
    return Options(**{**defaults, "layout": layout, **more})


def import_all(path: Path, *, layout: str = "kvrocks", mark: str | None = None, **more: Any) -> Imported:
    """Everything behind `mark` of a directory, applied; each event must be accepted."""
    store = new_store()
    result = Imported(open_machine(store), store)
    source = KvrocksSource(path, options(layout, **more), at_ms=NOW_MS)
    try:
        for each in source.keys(mark):
            if isinstance(each, LeftOut):
                result.left_out.append(each)
                continue
            result.keys.append(each)
            for name, args in each.events:
                offset = result.machine.next_offset
                applied = apply(result.machine, (offset, NOW_MS, name, list(args), each.db, None, None))
                assert [] == applied.dead_letters
                assert not isinstance(applied.outcomes[offset], Exception), applied.outcomes[offset]
                result.machine.commit(b"mark")
        result.notes = list(source.notes())
    finally:
        source.close()
    return result
