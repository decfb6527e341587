"""Commits, and reads between them: one batch with data and position, failing writes, large batches."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError, StoreBusyError
from engine.layouts.layout import Kind
from engine.limits import OVERLAY_BYTES_MAX
from slotlog.shared.errors import EventError
from tests.engine.harness import (
    FINGERPRINT,
    HOME,
    NOW_MS,
    WatchedStore,
    apply,
    event,
    family,
    feed,
    new_store,
    open_machine,
    records_of,
    send,
)
from tests.engine.stored import written


@pytest.fixture
def store() -> WatchedStore:
    """An empty store that is watched."""
    return WatchedStore()


@pytest.fixture
def machine(store: WatchedStore) -> Machine:
    """The machine of `store`."""
    return open_machine(store)


# ----------------------------------------------------------------------------------------------------------- commits


def test_data_position_and_clock_are_one_batch(store: WatchedStore, machine: Machine) -> None:
    """A commit is one write: data, next offset, clock, last version and the log's mark stand or fall together."""
    apply(machine, event(0, "SET a 1", at_ms=NOW_MS), event(1, "HSET h f v", at_ms=NOW_MS + 5))
    assert [] == store.batches
    machine.commit(FINGERPRINT)

    (batch,) = store.batches
    assert 2 == len(written(batch, Kind.METADATA))
    assert 1 == len(written(batch, Kind.DATA))
    system = batch.values["system"]
    assert (2).to_bytes(8, "big") == system[b"next_offset"]
    assert (NOW_MS + 5).to_bytes(8, "big") == system[b"clock_ms"]
    assert FINGERPRINT == system[b"fingerprint"]


def test_a_busy_store_may_be_committed_again(store: WatchedStore, machine: Machine) -> None:
    """A refused write leaves the batch as it is: commit again, also after more records; nothing is lost or twice."""
    records = [
        event(0, "SET a 1 PX 500"),
        event(1, "HSET h f v"),
        event(2, "PEXPIRE a 700"),
        event(3, "DEL h"),
        event(4, "FLUSHDB"),
        event(5, "SET a 2 PX 500"),
    ]
    for record in records:
        apply(machine, record)
        store.failures.append(StoreBusyError("a stall"))
        with pytest.raises(StoreBusyError, match="a stall"):
            machine.commit(FINGERPRINT)
    machine.commit(FINGERPRINT)
    other = new_store()
    feed(open_machine(other), records, 1)

    assert 1 == len(store.batches)
    assert records_of(other) == records_of(store)


def test_a_failed_write_leaves_the_position(store: WatchedStore, machine: Machine) -> None:
    """After a write that failed, a new machine is where the last commit was."""
    send(machine, "INCR n")
    apply(machine, event(1, "INCR n"))
    store.failures.append(OSError("No space left on device"))
    with pytest.raises(OSError, match="No space left"):
        machine.commit(FINGERPRINT)

    assert (1, b"1") == (open_machine(store).next_offset, open_machine(store).read(b"GET", [b"n"]))


def test_a_commit_without_records_keeps_the_mark(store: WatchedStore, machine: Machine) -> None:
    """None as the log's mark, as after a batch of markers alone, keeps the one that is stored."""
    send(machine, "INCR n")
    machine.commit(None)

    assert FINGERPRINT == open_machine(store).position.fingerprint


def test_large_values_end_a_batch_early(machine: Machine) -> None:
    """Once the overlay holds too much, `apply` leaves records over; they are taken after the commit."""
    chunk = b"x" * (8 << 20)
    count = OVERLAY_BYTES_MAX // len(chunk) + 3
    records = [(n, NOW_MS, b"SET", [b"k%d" % n, chunk], 0, None, None) for n in range(count)]
    applied = machine.apply(records, 0, to_offset=99)

    assert count - 2 == applied.records == applied.next_offset
    machine.commit(FINGERPRINT)
    assert 2 == machine.apply(records[applied.records :], applied.next_offset).records


# ------------------------------------------------------------------------------------------------------------- reads


def test_reads_see_what_was_applied_and_not_committed(machine: Machine) -> None:
    """A read between two writes of one batch sees the first and not the second."""
    seen = []
    for n in range(4):
        machine.apply([event(n, f"HSET h f{n} v")], n)
        seen.append([field for field, _ in machine.read(b"HGETALL", [b"h"])])
    machine.commit(FINGERPRINT)

    assert [[b"f0"], [b"f0", b"f1"], [b"f0", b"f1", b"f2"], [b"f0", b"f1", b"f2", b"f3"]] == seen


def test_reads_change_nothing(store: WatchedStore, machine: Machine) -> None:
    """Reads between the writes of a batch leave no trace in what is written."""
    records = [event(n, f"HSET h{n % 3} f{n} v") for n in range(30)]
    for record in records:
        machine.read(b"HGETALL", [b"h1"])
        machine.apply([record], record[0])
        machine.read(b"GET", [b"nothing"], 3)
    machine.commit(FINGERPRINT)
    other = new_store()
    feed(open_machine(other), records, 30)

    assert records_of(other) == records_of(store)


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        (b"SET", [b"a", b"1"], "SET writes: send it as an event"),
        (b"GET", [], "wrong number of arguments for 'get'"),
        (b"NOSUCH", [], "ERR unknown command 'NOSUCH'"),
    ],
)
def test_what_is_no_read_is_refused(machine: Machine, name: bytes, args: list[bytes], reason: str) -> None:
    """A read that writes, lacks arguments or does not exist is refused."""
    with pytest.raises(EventError, match=reason):
        machine.read(name, args)


def test_a_read_of_a_wrong_type_is_the_command_s_error(machine: Machine) -> None:
    """A read's own error is raised as it would be answered."""
    send(machine, "HSET h f v")
    with pytest.raises(CommandError, match="WRONGTYPE"):
        machine.read(b"GET", [b"h"])


def test_an_empty_store_starts_at_the_beginning(store: WatchedStore) -> None:
    """A store without a state is at offset 0, and a machine that only looks at it writes nothing."""
    machine = Machine(store, HOME)

    assert (0, 0, {}) == (machine.next_offset, machine.clock_ms, machine.key_counts)
    assert machine.read(b"GET", [b"a"]) is None
    assert ({}, []) == (family(store, "system"), store.batches)
