"""Idempotency keys: a second event with an id changes nothing and has the first one's outcome, for 24 hours."""

from __future__ import annotations

from typing import Any

import pytest

from engine.apply.machine import Applied, Machine
from engine.errors import CommandError
from engine.limits import DEDUP_REPLY_BYTES_MAX, DEDUP_WINDOW_MS
from engine.store.memory import MemoryStore
from tests.engine.harness import FINGERPRINT, apply, event, family, new_store, open_machine

BUCKET_START_MS = 20_000 * DEDUP_WINDOW_MS
LATE_IN_BUCKET_MS = BUCKET_START_MS + DEDUP_WINDOW_MS - 1


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.fixture(params=["one batch", "a batch each"])
def one_batch(request: pytest.FixtureRequest) -> bool:
    """Whether all records of a test stand in one batch: it makes no difference."""
    return bool(request.param == "one batch")


def run(machine: Machine, one_batch: bool, *steps: tuple[int, str]) -> list[Any]:
    """Apply (time, command) steps, all with the same id; the outcomes, and at the end how many were duplicates."""
    outcomes: list[Any] = []
    duplicates = 0
    for at_ms, line in steps:
        offset = machine.next_offset
        applied = apply(machine, event(offset, line, at_ms=at_ms, event_id=b"id-1"))
        outcomes.append(applied.outcomes.get(offset))
        duplicates += applied.duplicates
        if not one_batch:
            machine.commit(FINGERPRINT)
    machine.commit(FINGERPRINT)
    return [*outcomes, duplicates]


def test_a_second_delivery_has_the_first_outcome(store: MemoryStore, one_batch: bool) -> None:
    """The same id again is not applied: same reply, one duplicate, whatever the second event says."""
    machine = open_machine(store)

    assert [1, 1, 1, 2] == run(
        machine,
        one_batch,
        (BUCKET_START_MS, "INCR n"),
        (BUCKET_START_MS + 1, "INCR n"),
        (BUCKET_START_MS + 2, "SET n x"),
    )
    assert b"1" == machine.read(b"GET", [b"n"])


@pytest.mark.parametrize("first_ms", [BUCKET_START_MS, BUCKET_START_MS + 5, LATE_IN_BUCKET_MS])
def test_the_window_is_24_hours_of_log_time(store: MemoryStore, one_batch: bool, first_ms: int) -> None:
    """Up to the last millisecond of the window it is a duplicate, from then on a new event, wherever buckets begin."""
    machine = open_machine(store)
    last_ms = first_ms + DEDUP_WINDOW_MS - 1
    outcomes = run(machine, one_batch, (first_ms, "INCR n"), (last_ms, "INCR n"), (last_ms + 1, "INCR n"))

    assert [1, 1, 2, 1] == outcomes
    assert [2, 2, 3, 2] == run(
        machine, one_batch, *((last_ms + delta, "INCR n") for delta in (2, 3, DEDUP_WINDOW_MS + 1))
    )


def test_the_window_is_measured_on_the_clock(store: MemoryStore, one_batch: bool) -> None:
    """A record from the past is judged by the partition's clock, which never goes back."""
    machine = open_machine(store)
    apply(machine, event(0, "TICK", at_ms=BUCKET_START_MS + DEDUP_WINDOW_MS))
    run(machine, one_batch, (BUCKET_START_MS, "INCR n"))

    assert [1, 1] == run(machine, one_batch, (BUCKET_START_MS + 2 * DEDUP_WINDOW_MS - 1, "INCR n"))


def test_duplicates_move_the_clock(store: MemoryStore) -> None:
    """A duplicate is a record with a time like others."""
    machine = open_machine(store)
    run(machine, True, (BUCKET_START_MS, "INCR n"), (BUCKET_START_MS + 77, "INCR n"))

    assert BUCKET_START_MS + 77 == machine.clock_ms


def test_rejections_are_remembered(store: MemoryStore, one_batch: bool) -> None:
    """A rejected event stays rejected under its id, though it might pass now; it is counted as rejected once."""
    machine = open_machine(store)
    apply(machine, event(0, "SET n x", at_ms=BUCKET_START_MS))
    first, second, duplicates = run(machine, one_batch, (BUCKET_START_MS, "INCR n"), (BUCKET_START_MS, "SET n 1"))

    assert isinstance(first, CommandError)
    assert isinstance(second, CommandError)
    assert ("ERR value is not an integer or out of range", 1) == (first.message, duplicates)
    assert first.message == second.message
    assert b"x" == machine.read(b"GET", [b"n"])


def test_dead_letters_are_not_remembered(store: MemoryStore, one_batch: bool) -> None:
    """An id of a dead letter is still free: the corrected event is applied."""
    machine = open_machine(store)

    assert [None, 1, 0] == run(machine, one_batch, (BUCKET_START_MS, "INCR"), (BUCKET_START_MS, "INCR n"))


def test_a_large_reply_is_not_kept(store: MemoryStore, one_batch: bool) -> None:
    """Of a reply over 4 KiB only the fact is kept: the second delivery is not applied, and is told so."""
    machine = open_machine(store)
    longest = "x" * (DEDUP_REPLY_BYTES_MAX - 5)
    apply(machine, event(0, f"SET short {longest}"), event(1, f"SET long {longest}x"))
    kept = run(machine, one_batch, (BUCKET_START_MS, "GETDEL short"), (BUCKET_START_MS, "GETDEL short"))
    assert [longest.encode(), longest.encode(), 1] == kept

    later_ms = BUCKET_START_MS + DEDUP_WINDOW_MS
    first, second, duplicates = run(machine, one_batch, (later_ms, "GETDEL long"), (later_ms, "GETDEL long"))
    assert (longest.encode() + b"x", 1) == (first, duplicates)
    assert second.message.startswith("DUPLICATE this id was applied before; its reply had over 4096 bytes")


def test_an_exec_is_remembered_whole(store: MemoryStore, one_batch: bool) -> None:
    """A transaction's id keeps the array of its replies."""
    machine = open_machine(store)
    steps = [[b"INCR", b"n"], [b"HSET", b"n", b"f", b"v"]]
    applied: list[Applied] = []
    for offset in range(2):
        applied.append(apply(machine, event(offset, steps, at_ms=BUCKET_START_MS, event_id=b"x")))
        if not one_batch:
            machine.commit(FINGERPRINT)
    first, second = applied[0].outcomes[0], applied[1].outcomes[1]

    assert 1 == applied[1].duplicates
    assert (1, 1) == (first[0], second[0])
    assert first[1].message == second[1].message
    assert b"1" == machine.read(b"GET", [b"n"])


def test_ids_are_apart(store: MemoryStore) -> None:
    """Different ids, none included, do not meet; an id is its bytes alone, whatever database it came with."""
    machine = open_machine(store)
    applied = apply(
        machine,
        event(0, "INCR n", event_id=b"a"),
        event(1, "INCR n", event_id=b"a\0"),
        event(2, "INCR n"),
        event(3, "INCR n"),
        event(4, "INCR n", db=2, event_id=b"a"),
    )

    assert [1, 2, 3, 4, 1] == list(applied.outcomes.values())


def test_a_rolled_back_event_is_not_remembered(store: MemoryStore) -> None:
    """What was never committed leaves no id behind."""
    machine = open_machine(store)
    apply(machine, event(0, "INCR n", event_id=b"a"))
    machine.rollback()
    applied = apply(machine, event(0, "INCR n", event_id=b"a"))
    machine.commit(FINGERPRINT)

    assert ({0: 1}, 0) == (applied.outcomes, applied.duplicates)
    assert 1 == len(family(store, "dedup"))


def test_buckets_have_a_range(store: MemoryStore) -> None:
    """All ids of a window share the first four bytes, so that a whole bucket can be dropped by range."""
    machine = open_machine(store)
    for n in range(3):
        offset = machine.next_offset
        at_ms = BUCKET_START_MS + n * DEDUP_WINDOW_MS
        apply(machine, *(event(offset + i, "INCR n", at_ms=at_ms, event_id=b"%d" % i) for i in range(2)))
    machine.commit(FINGERPRINT)
    buckets = [(20_000 + n).to_bytes(4, "big") for n in range(3)]

    assert [bucket + b"%d" % i for bucket in buckets for i in range(2)] == list(family(store, "dedup"))
