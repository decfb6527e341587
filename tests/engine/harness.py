"""Shared by the engine's tests: one partition in memory, records from commands, batches of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.apply.machine import KEY_CACHE_BYTES, Applied, Machine, Record
from engine.errors import CommandError
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.store import Changes, Store
from engine.tables.system import Home
from engine.values.replies import Reply
from tests.layouts import column_families, home_of, layout_of

HOME = home_of("topic", 0, 1)
FAMILIES = column_families()
NOW_MS = 1_700_000_000_000
FINGERPRINT = b"the log's mark"


class WatchedStore(MemoryStore):
    """A store in memory that keeps every batch, and can be told to be busy or to break before it writes one."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.batches: list[Changes] = []
        self.failures: list[Exception] = []

    def write(self, changes: Changes) -> None:
        """Write, or raise the next failure."""
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(changes.copy())
        super().write(changes)


def new_store() -> MemoryStore:
    """An empty store in memory for the neokv layout."""
    return MemoryStore(FAMILIES)


def open_machine(store: Store, home: Home = HOME, *, key_cache_bytes: int = KEY_CACHE_BYTES) -> Machine:
    """The machine of a store, proving after each rejection that it changed nothing."""
    return Machine(store, home, verify=True, key_cache_bytes=key_cache_bytes)


def event(
    offset: int, command: str | list[list[bytes]], *, at_ms: int = NOW_MS, db: int = 0, event_id: bytes | None = None
) -> Record:
    """The record at `offset` with `command`, words between spaces, or the commands of an EXEC."""
    if isinstance(command, list):
        return (offset, at_ms, b"EXEC", command, db, event_id, None)
    name, *args = command.encode().split(b" ")
    return (offset, at_ms, name, args, db, event_id, None)


def apply(machine: Machine, *records: Record) -> Applied:
    """Apply `records`, waiting for every outcome."""
    return machine.apply(records, machine.next_offset, waiting=range(machine.next_offset, 1 << 62))


def send(machine: Machine, *commands: str | list[list[bytes]], at_ms: int = NOW_MS, db: int = 0) -> list[Any]:
    """Apply each command as the next record and commit; the outcomes, for a dead letter its reason."""
    start = machine.next_offset
    records = [event(start + n, command, at_ms=at_ms, db=db) for n, command in enumerate(commands)]
    applied = apply(machine, *records)
    machine.commit(FINGERPRINT)
    outcomes: dict[int, Reply] = {**dict(applied.dead_letters), **applied.outcomes}
    return [outcomes[record[0]] for record in records]


def feed(machine: Machine, records: Sequence[Record], batch: int) -> None:
    """Apply and commit `records` in batches of `batch` records."""
    for start in range(0, len(records), batch):
        left = records[start : start + batch]
        while left:
            applied = machine.apply(left, machine.next_offset)
            machine.commit(FINGERPRINT)
            left = left[applied.records :]


def records_of(store: Store, partition: int = 0) -> list[tuple[str, bytes, bytes]]:
    """Everything that `dump --raw` shows."""
    return list(raw_records(store, layout_of(partition)))


def family(store: Store, name: str) -> dict[bytes, bytes]:
    """The records of one column family."""
    return dict(store.scan(name, b"", None))


def shape(reply: Reply) -> object:
    """A reply with its types, to be compared: an error equals no other error by itself, and OK equals b"OK"."""
    if isinstance(reply, CommandError):
        return ("CommandError", reply.message)
    if isinstance(reply, list | tuple):
        return (type(reply).__name__, [shape(element) for element in reply])
    return (type(reply).__name__, repr(reply))
