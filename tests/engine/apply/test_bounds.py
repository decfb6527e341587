"""Bounds on memory and on what one event may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.apply.machine import Machine
from engine.errors import EXEC_TOO_LARGE, CommandError, CorruptionError
from engine.layouts.layout import Form
from engine.limits import EXEC_VALUE_BYTES_MAX
from engine.proof.audit import Audit
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, Changes
from engine.values.encoding import pack_u64
from tests.engine.harness import FAMILIES, FINGERPRINT, HOME, NOW_MS, apply, event, new_store, open_machine
from tests.engine.stored import key_of

MIB = 1024 * 1024


@pytest.mark.form(Form.FRAGMENTS)
def test_a_transaction_writes_no_more_than_its_bound() -> None:
    """A few bytes of BITOP make large values: once a transaction has written its bound, the rest is refused."""
    step = EXEC_VALUE_BYTES_MAX // 4
    steps = [[b"SETRANGE", b"k", b"%d" % step, b"x"]]
    steps += [[b"BITOP", b"NOT", b"k%d" % number, b"k"] for number in range(8)]

    outcome = apply(Machine(new_store(), HOME), event(0, steps)).outcomes[0]

    assert [step + 1] * 5 == outcome[:5]
    assert [EXEC_TOO_LARGE] * 4 == [error.message for error in outcome[5:] if isinstance(error, CommandError)]


def test_the_bound_is_each_transactions_own() -> None:
    """What one transaction has written does not count for the next."""
    machine = Machine(new_store(), HOME)
    large = [[b"SETRANGE", b"k", b"%d" % EXEC_VALUE_BYTES_MAX, b"x"], [b"BITOP", b"NOT", b"k", b"k"]]

    applied = apply(machine, event(0, large))
    applied = apply(machine, event(1, [[b"SET", b"a", b"1"]]))

    assert [b"OK"] == applied.outcomes[1]


def test_reads_that_nobody_waits_for_do_not_run() -> None:
    """A read inside a transaction has no effect, so without anybody to hear its reply it costs nothing."""
    machine = open_machine(new_store())

    applied = machine.apply([event(0, [[b"SET", b"a", b"1"], [b"GET", b"a"]])], 0)

    assert {b"SET": 1} == dict(applied.commands)


def test_long_names_do_not_stay_in_memory() -> None:
    """Between batches, names of over a kilobyte are forgotten: the cache is bounded in bytes, not in keys alone."""
    machine = open_machine(new_store())
    for offset in range(4):
        machine.apply([(offset, NOW_MS, b"DEL", [b"%d" % offset * MIB], 0, None, None)], offset)
        machine.commit(FINGERPRINT)

    assert [] == [name for keys in machine._tx._overlay.databases.values() for name in keys]


class _ScanCounter(MemoryStore):
    """Counts scans of the expiry index."""

    scans = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self.scans += column_family == EXPIRY_CF
        return super().scan(column_family, start, end, reverse=reverse)


def test_flushing_all_keys_does_not_walk_them() -> None:
    """FLUSHDB of the only database with keys, and FLUSHALL, are range deletes whatever the number of keys."""
    store = _ScanCounter(FAMILIES)
    machine = open_machine(store)
    apply(machine, event(0, "SET a 1 EX 9"), event(1, "FLUSHDB"), event(2, "SET b 1 EX 9"), event(3, "FLUSHALL"))
    machine.commit(FINGERPRINT)

    assert (0, []) == (store.scans, list(store.scan(EXPIRY_CF, b"", None)))


def test_flushing_twice_walks_the_index_once() -> None:
    """With keys in another database the expiry index is walked, once a batch."""
    store = _ScanCounter(FAMILIES)
    machine = open_machine(store)
    apply(machine, event(0, "SET a 1 EX 9", db=1), event(1, "SET a 1 EX 9"))
    machine.commit(FINGERPRINT)

    apply(machine, *(event(offset, "FLUSHDB") for offset in range(2, 9)))

    assert 1 == store.scans


def test_a_flush_of_the_last_keys_takes_no_entry_of_a_new_one() -> None:
    """A key that is deleted and written again with its old time, and between that the flush of the only other keys.

    In one batch: the flush removes the whole index as a range, and with it the entry that the key had.
    """
    store = new_store()
    machine = open_machine(store)
    expire_ms = NOW_MS + 9_000
    apply(machine, event(0, f"SET a 1 PXAT {expire_ms}"), event(1, "SET b 1 EX 9", db=1))
    machine.commit(FINGERPRINT)
    before = pack_u64(expire_ms) + key_of(b"a")
    assert {before, pack_u64(expire_ms) + key_of(b"b", 1)} == {entry for entry, _ in store.scan(EXPIRY_CF, b"", None)}

    apply(machine, event(2, "DEL a"), event(3, "FLUSHDB", db=1), event(4, f"SET a 2 PXAT {expire_ms}"))
    machine.commit(FINGERPRINT)

    assert [before] == [entry for entry, _ in store.scan(EXPIRY_CF, b"", None)]
    assert [] == list(Audit(store, HOME).violations())


def test_damage_of_the_store_is_not_taken_for_a_fault_of_the_record() -> None:
    """An error that RocksDB calls corruption says replay: the record is whole, and skipping it would lose an event."""

    def damaged(key: bytes) -> bytes | None:
        raise Exception("Corruption: block checksum mismatch")  # noqa: TRY002 - rocksdict raises nothing else

    machine = open_machine(new_store())
    machine._tx._overlay._get_metadata = damaged

    with pytest.raises(CorruptionError, match="slotlog replay"):
        apply(machine, event(0, "GET a"))


@pytest.mark.damaging
def test_a_damaged_system_record_is_named(tmp_path: Path) -> None:
    """Damage where the state says what it is is a CorruptionError as well, found when the machine opens."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    apply(machine := Machine(store, HOME), event(0, "SET a 1"))
    machine.commit(FINGERPRINT)
    store.flush_all()
    store.close()
    for table in (tmp_path / "0").glob("*.sst"):
        content = bytearray(table.read_bytes())
        content[10:30] = bytes(20)  # in a data block: damage behind it is met by the opening itself
        table.write_bytes(content)

    store = RocksStore(tmp_path / "0", FAMILIES)
    with pytest.raises(CorruptionError, match="slotlog replay"):
        Machine(store, HOME)
    store.close()


def test_changes_are_whole_after_a_flush_in_mid_batch() -> None:
    """A key made after a flush is written, also when another database is flushed later in the batch."""
    store = new_store()
    machine = open_machine(store)
    apply(machine, event(0, "FLUSHDB", db=1), event(1, "SET a 1 EX 9", db=1), event(2, "FLUSHDB"))
    machine.commit(FINGERPRINT)

    assert b"1" == open_machine(store).read(b"GET", [b"a"], 1)
    assert isinstance(machine._tx.changes(), Changes)
