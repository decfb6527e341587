"""Runs the same records through a machine on the part in C, and through one on Python alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Final

from engine import native
from engine.apply.machine import Applied, Machine, Record
from engine.store.memory import MemoryStore
from engine.store.store import Changes, Get, Store
from engine.tables.system import Home
from tests.engine.harness import FAMILIES, FINGERPRINT, HOME, shape

KEY_CACHE_BYTES: Final = 5000
"""Of these machines, so that keys are forgotten and loaded again."""


class CountingStore(MemoryStore):
    """A store in memory that notes its reads and writes, and fails at the read `fails_at`, counted from 1."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.reads: list[tuple[str, bytes]] = []
        self.written: list[object] = []
        self.fails_at = -1

    def getter(self, column_family: str) -> Get:
        """A getter that notes what it is asked for."""
        get = super().getter(column_family)

        def noting(key: bytes) -> bytes | None:
            if (column_family, key) not in self.reads[-1:]:  # what C leaves to Python then, is read again
                self.reads.append((column_family, key))
            if len(self.reads) == self.fails_at:
                raise OSError("the disk is away")
            return get(key)

        return noting

    def write(self, changes: Changes) -> None:
        """Write, and note the whole batch."""
        self.written.append((list(changes.ranges), {name: dict(puts) for name, puts in changes.values.items() if puts}))
        super().write(changes)


@contextmanager
def running(*, natively: bool) -> Iterator[None]:
    """Let machines that are made within run on the part in C, or on Python alone."""
    before = native.chosen() is not None
    native.choose(native=natively)
    try:
        yield
    finally:
        native.choose(native=before)


ReadRun = Callable[[int, list[list[bytes]], int, int, bool, list[bytes]], tuple[int, int, int]]
"""Takes the kind of a read, commands, the place of the first, a wall clock, whether to speak RESP3, and the replies."""


def reader_of(*machines: Machine | None) -> ReadRun:
    """`read_run` of a server that has these partitions; None: it does not serve that one."""
    served = [None if machine is None else (machine, machine.hot_path, None, None, None) for machine in machines]
    return partial(part_in_c().read_run, tuple(served))


def part_in_c() -> ModuleType:
    """The part in C."""
    with running(natively=True):
        hot = native.chosen()
    assert hot is not None
    return hot


def machine_of(store: Store, *, natively: bool, home: Home = HOME) -> Machine:
    """A machine that runs on one of the two."""
    with running(natively=natively):
        return Machine(store, home, key_cache_bytes=KEY_CACHE_BYTES)


def told(applied: Applied) -> dict[str, object]:
    """All that a call of `Machine.apply` tells."""
    facts: dict[str, Any] = {name: getattr(applied, name) for name in Applied.__slots__}
    facts["outcomes"] = {offset: shape(reply) for offset, reply in applied.outcomes.items()}
    return facts


def results(
    records: Sequence[Record],
    sizes: Sequence[int],
    *,
    natively: bool,
    waits: bool = True,
    fails_at: int = -1,
    home: Home = HOME,
) -> list[object]:
    """What comes of records in batches of these sizes, in turn: all that is told, read, raised and written."""
    store = CountingStore()
    machine = machine_of(store, natively=natively, home=home)
    store.reads.clear()
    store.fails_at = fails_at
    found: list[object] = []
    at = turn = 0
    while at < len(records):
        batch = records[at : at + sizes[turn % len(sizes)]]
        turn += 1
        waiting = frozenset(record[0] for record in batch if record[0] % 3) if waits else frozenset()
        try:
            applied = machine.apply(batch, machine.next_offset, waiting)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same on both
            found.append((type(error), str(error), repr(error.__cause__), machine.next_offset, machine.clock_ms))
            stopped = getattr(error, "offset", None)
            if stopped is not None:  # as an operator's skip
                records = [record for record in records if record[0] != stopped]
            continue
        at += applied.records
        found.append(
            (told(applied), machine.next_offset, machine.clock_ms, dict(machine._tx.counts), machine._tx.value_bytes)
        )
        if turn % 2 or at >= len(records):
            machine.commit(FINGERPRINT)
    store.fails_at = -1  # it is looked at when the test has ended
    return [*found, store.reads, store.written, machine.key_counts]


def compare(records: list[Record], sizes: list[int], **how: Any) -> None:
    """Fail at the first step of which a machine on the part in C tells anything else than one on Python."""
    in_c = results(records, sizes, natively=True, **how)
    python = results(records, sizes, natively=False, **how)
    for step, (mine, twin) in enumerate(zip(in_c, python, strict=True)):
        assert twin == mine, f"step {step}"
