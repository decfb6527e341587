"""States for the tests of proofs, and damage to them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.apply.machine import Machine
from engine.store.store import SYSTEM_CF, Changes
from ops.config import load_settings
from ops.state.opening.directories import home_of, store_opener
from slotlog.log import Entry
from tests.ops.past.logs import Line, write_log
from tests.ops.verbs import succeed


def with_state(data: Path, lines: Iterable[Line | Entry]) -> Path:
    """A data directory with an embedded log of these events, and the state that it makes."""
    write_log(data, lines)
    apply(data)
    return data


def apply(data: Path, *options: object) -> None:
    """Make the state of what the log has; options as `slotlog replay` takes them."""
    built = data.with_name(f"{data.name}-built")
    succeed("replay", "--data", data, "--to", built, *options)
    (built / "0").rename(data / "0")
    built.rmdir()


def plant(data: Path, name: bytes, *args: bytes, db: int = 0) -> None:
    """Run a command on a state behind the log's back: no position, count or version says so."""
    settings = load_settings(data=data)
    store = store_opener(settings, data)(0)
    before = dict(store.scan(SYSTEM_CF, b"", None))
    machine = Machine(store, home_of(settings, 0))
    record: Any = (machine.next_offset, machine.clock_ms, name, list(args), db, None, None)
    machine.apply([record], machine.next_offset)
    machine.commit(None)
    changes = Changes()
    changes.of(SYSTEM_CF).update(before)
    store.write(changes)
    store.flush_all()
    store.close()
