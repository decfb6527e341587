"""Bugs to plant: the simulation is worth something only if it finds each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from engine.apply.machine import Machine
from engine.batch.keys.key import Key
from engine.batch.staging import Staging
from engine.batch.transaction import Transaction
from engine.cleaning.reclaim import Reclaimer
from engine.errors import CommandError
from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime
from engine.store.store import LOCAL_CF, SYSTEM_CF, Changes
from engine.tables.dedup import Deduplicator
from engine.tables.graveyard import Grave
from engine.tables.libraries import Libraries
from engine.tables.scripts import Scripts
from engine.types.stream import stream_index
from ingest.applying.batches.commit_path import CommitPath
from ingest.applying.batches.worker import Worker
from ingest.applying.slicing.gate import Gate
from slotlog.errors import LogUnavailableError
from tests.simulation.disks import DiskStore
from tests.simulation.world import InjectedError


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with the bug `name`; with none when it is empty."""
    if not name:
        yield
        return
    with PLANTS[name]():
        yield


def _lost_position() -> AbstractContextManager[Any]:
    """Data and position are written one after the other, not as one: a crash between them applies a batch twice."""
    write = DiskStore.write

    def in_two_steps(store: DiskStore, changes: Changes) -> None:
        position = Changes()
        position.values[SYSTEM_CF] = changes.values.pop(SYSTEM_CF, {})
        write(store, changes)
        write(store, position)

    return patch.object(DiskStore, "write", in_two_steps)


def _double_apply() -> AbstractContextManager[Any]:
    """After a failed write the worker goes on from the position that it remembers; the write may have happened."""
    apply = Worker.apply

    async def trusting(worker: Worker, *args: Any, **options: Any) -> None:
        try:
            await apply(worker, *args, **options)
        except InjectedError as error:
            raise LogUnavailableError(str(error)) from error

    return patch.object(Worker, "apply", trusting)


def _forget_expiry() -> AbstractContextManager[Any]:
    """A key that is due lives on until something deletes it."""

    def find(tx: Transaction, name: bytes) -> Key | None:
        key = tx._keys.get(name) or tx._load(name)
        return key if key.type else None

    return patch.object(Transaction, "find", find)


def _forget_ids() -> AbstractContextManager[Any]:
    """An event that was sent again is applied again."""
    return patch.object(Deduplicator, "outcome", lambda *_: None)


def _late_letters() -> AbstractContextManager[Any]:
    """Dead letters are stored after the position has moved past them."""
    finish = CommitPath._finish

    async def late(path: CommitPath, batch: Any, applied: Any, value_bytes: int, seconds: float) -> None:
        letters, applied.dead_letters = applied.dead_letters, []
        await finish(path, batch, applied, value_bytes, seconds)
        applied.dead_letters = letters
        if letters and path.dead_letters is not None:
            await path._store_dead_letters(path.dead_letters, batch, applied)

    return patch.object(CommitPath, "_finish", late)


def _stale_cache() -> AbstractContextManager[Any]:
    """What a batch that was thrown away has done to the cached keys stays."""
    reset = Transaction.reset

    def forgetful(tx: Transaction, *, written: bool) -> None:
        reset(tx, written=True)

    return patch.object(Transaction, "reset", forgetful)


def _batch_in_bytes() -> AbstractContextManager[Any]:
    """What is on disk depends on where a batch ended: subkeys of a key that dies in its own batch are not written."""
    bury = Transaction._bury

    def tidy(tx: Transaction, key: Key) -> None:
        if key.version and key.data.fresh:
            key.data.changed.clear()
        bury(tx, key)

    return patch.object(Transaction, "_bury", tidy)


def _clock_back() -> AbstractContextManager[Any]:
    """A restart begins with the clock at zero, so that what was dead lives again until the next record."""
    init = Machine.__init__

    def young(machine: Machine, *args: Any, **options: Any) -> None:
        init(machine, *args, **options)
        machine._executor.clock_ms = 0

    return patch.object(Machine, "__init__", young)


def _flushed_stage() -> AbstractContextManager[Any]:
    """What a large collection has written ahead goes with the flush that came before it in the same batch."""
    return patch.object(Staging, "_spare", lambda *_: None)


def _early_cursor() -> AbstractContextManager[Any]:
    """How far cleaning has come is written before what it cleans: after a crash in between something stays for ever."""
    write = DiskStore.write

    def in_two_steps(store: DiskStore, changes: Changes) -> None:
        cursor = Changes()
        cursor.values[LOCAL_CF] = changes.values.pop(LOCAL_CF, {})
        if cursor.values[LOCAL_CF]:
            write(store, cursor)
        write(store, changes)

    return patch.object(DiskStore, "write", in_two_steps)


def _lost_records() -> AbstractContextManager[Any]:
    """A dead collection loses its grave before all of its records are gone."""
    bury = Reclaimer._bury

    def hasty(reclaimer: Reclaimer, grave: Grave, changes: Changes) -> int:
        return bury(reclaimer, grave, changes if grave.elements < 3 else Changes())

    return patch.object(Reclaimer, "_bury", hasty)


def _sweep_ahead() -> AbstractContextManager[Any]:
    """What will be due in a second is removed already."""
    begin = Machine.begin_cleaning

    def hasty(machine: Machine) -> Transaction:
        tx = begin(machine)
        tx.now_ms += 1000
        return tx

    return patch.object(Machine, "begin_cleaning", hasty)


def _due_left() -> AbstractContextManager[Any]:
    """A clock is set back while keys that are due at the old one are still stored: whether they live is chance."""
    return patch("engine.apply.set_back.due_entries", lambda *_: iter(()))


def _open_gate() -> AbstractContextManager[Any]:
    """A machine in which a command is suspended lets others in: commands, reads, and what cleans up."""
    suspend = Gate.suspend

    def leave_open(gate: Gate, *args: Any) -> None:
        suspend(gate, *args)
        assert gate.machine is not None
        gate.machine.is_held = False

    return patch.object(Gate, "suspend", leave_open)


def _limit_keeps() -> AbstractContextManager[Any]:
    """A script that meets a limit keeps what it wrote before."""
    run = ScriptRuntime.run

    def ending(runtime: ScriptRuntime, *args: Any) -> Any:
        try:
            return run(runtime, *args)
        except ScriptLimitError as limit:
            raise CommandError(limit.message) from limit

    return patch.object(ScriptRuntime, "run", ending)


def _lost_scripts() -> AbstractContextManager[Any]:
    """A batch that is thrown away leaves the scripts that it has brought, which are not in the store."""
    return patch.object(Scripts, "reset", _kept)


def _lost_libraries() -> AbstractContextManager[Any]:
    """A batch that is thrown away leaves the libraries that it has brought, which are not in the store."""
    return patch.object(Libraries, "reset", _kept)


def _kept(table: Scripts | Libraries, *, written: bool) -> None:
    table._before = None


def _uncounted_entries() -> AbstractContextManager[Any]:
    """An entry that XDEL deletes stays in the count of its block."""
    return patch.object(stream_index, "count_out", lambda *_: None)


PLANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "batch-in-bytes": _batch_in_bytes,
    "clock-back": _clock_back,
    "double-apply": _double_apply,
    "due-left": _due_left,
    "early-cursor": _early_cursor,
    "flushed-stage": _flushed_stage,
    "forget-expiry": _forget_expiry,
    "forget-ids": _forget_ids,
    "late-letters": _late_letters,
    "limit-keeps": _limit_keeps,
    "lost-libraries": _lost_libraries,
    "lost-position": _lost_position,
    "lost-records": _lost_records,
    "lost-scripts": _lost_scripts,
    "open-gate": _open_gate,
    "stale-cache": _stale_cache,
    "sweep-ahead": _sweep_ahead,
    "uncounted-entries": _uncounted_entries,
}
