"""The machine of a partition: position and clock, outcomes, dead letters, and what stops it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.batch.transaction import Transaction
from engine.commands.registry import SPECS, command
from engine.errors import CommandError, PartitionStoppedError
from engine.store.memory import MemoryStore
from engine.tables.system import RULES, skip_changes
from slotlog.shared.limits import TIME_MS_MAX
from tests.engine.harness import (
    FINGERPRINT,
    NOW_MS,
    apply,
    event,
    feed,
    new_store,
    open_machine,
    records_of,
    send,
)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.fixture
def machine(store: MemoryStore) -> Machine:
    """The machine of `store`."""
    return open_machine(store)


@pytest.fixture
def bug() -> Iterator[None]:
    """Commands that do what no command may: BUG raises, CHEAT changes something and then fails."""

    @command("BUG key", group="test", since="test", complexity="O(1)", write=True, notifies="")
    def bug_(tx: Transaction, args: list[bytes]) -> Any:
        tx.put_string(args[0], b"half done")
        raise ZeroDivisionError("planted")

    @command("CHEAT key", group="test", since="test", complexity="O(1)", write=True, notifies="")
    def cheat(tx: Transaction, args: list[bytes]) -> Any:
        tx.put_string(args[0], b"half done")
        raise CommandError("ERR too late")

    yield
    del SPECS[b"BUG"], SPECS[b"CHEAT"]


# ---------------------------------------------------------------------------------------------- position and clock


def test_a_machine_goes_on_where_the_last_one_committed(store: MemoryStore, machine: Machine) -> None:
    """A new machine on the same store has position, clock, versions, counts and mark of the last commit, no more."""
    send(machine, "SET a 1", "HSET h f v")
    apply(machine, event(2, "SET b 1", at_ms=NOW_MS + 9))
    opened = open_machine(store)

    assert (2, NOW_MS) == (opened.next_offset, opened.clock_ms)
    assert FINGERPRINT == opened.position.fingerprint
    assert 2 == sum(opened.key_counts.values())
    assert machine.position.last_version == opened.position.last_version > 0


def test_nothing_is_skipped_or_taken_twice_between_fetches(machine: Machine) -> None:
    """Records from another position than the next one are refused before anything is applied."""
    send(machine, "INCR n", "INCR n")

    for wrong in (0, 1, 3):
        with pytest.raises(ValueError, match=f"from offset {wrong}, but the next one to apply is 2"):
            machine.apply([event(wrong, "INCR n")], wrong)
    with pytest.raises(ValueError, match="from offset 2, but the next one to apply is 2"):
        machine.apply([event(1, "INCR n"), event(2, "INCR n")], 2)
    assert b"2" == machine.read(b"GET", [b"n"])


def test_gaps_inside_a_fetch_are_legal(machine: Machine) -> None:
    """Kafka keeps markers at some offsets: records may leave offsets out, at the start too."""
    applied = apply(machine, event(3, "INCR n"), event(7, "INCR n"))

    assert {3: 1, 7: 2} == applied.outcomes
    assert 8 == applied.next_offset == machine.next_offset


def test_the_position_moves_over_what_the_log_passed_by(machine: Machine) -> None:
    """Where the log went on after the last record, the next position is there, when all records were taken."""
    applied = machine.apply([event(0, "INCR n")], 0, to_offset=5)
    assert 5 == applied.next_offset == machine.next_offset
    assert 6 == machine.apply([], 5, to_offset=6).next_offset
    assert 6 == machine.apply([], 6).next_offset


def test_the_clock_never_goes_back(machine: Machine) -> None:
    """The clock is the highest record time: a record from the past is applied at the time of the one before it."""
    send(machine, "SET a 1 PX 100", at_ms=NOW_MS)
    send(machine, "SET b 1 PX 100", at_ms=NOW_MS - 50)

    assert NOW_MS == machine.clock_ms
    assert 100 == machine.read(b"PTTL", [b"b"])


@pytest.mark.parametrize(
    "command_line",
    ["NOSUCH a", "GET", "HSET h f v g", "DBSIZE", "SET a 1 SYNTAX", "TICK"],
    ids=["unknown", "arity", "rejected", "physical", "syntax", "tick"],
)
def test_every_record_with_a_valid_time_moves_the_clock(machine: Machine, command_line: str) -> None:
    """Dead letters and rejections move the clock as well: it is the log's time, not that of what was applied."""
    apply(machine, event(0, command_line, at_ms=NOW_MS + 1))

    assert NOW_MS + 1 == machine.clock_ms


@pytest.mark.parametrize("at_ms", [-1, TIME_MS_MAX + 1, 1 << 63])
def test_a_time_out_of_range_moves_nothing(store: MemoryStore, machine: Machine, at_ms: int) -> None:
    """A record whose time no version can hold is a dead letter, and neither the clock nor any key moves."""
    send(machine, "SET a 1")
    applied = apply(machine, event(1, "SET a 2", at_ms=at_ms))
    machine.commit(FINGERPRINT)

    assert [(1, f"time {at_ms} is outside 0 … {TIME_MS_MAX} ms")] == applied.dead_letters
    assert (2, NOW_MS) == (machine.next_offset, open_machine(store).clock_ms)
    assert b"1" == machine.read(b"GET", [b"a"])


@pytest.mark.parametrize("at_ms", [0, TIME_MS_MAX])
def test_the_ends_of_time_are_valid(machine: Machine, at_ms: int) -> None:
    """Time 0 and the last millisecond that a version can hold are times like others."""
    assert [1] == send(machine, "HSET h f v", at_ms=at_ms)


# ---------------------------------------------------------------------------------------------------------- outcomes


def test_outcomes_are_kept_for_those_who_wait(machine: Machine) -> None:
    """Only the offsets that somebody waits for have an outcome; counts are of all records."""
    records = [event(0, "INCR n"), event(1, "incr n"), event(2, "HSET n f v"), event(3, "Get n")]
    applied = machine.apply(records, 0, waiting={1})

    assert {1: 2} == applied.outcomes
    assert {b"INCR": 2, b"HSET": 1, b"GET": 1} == applied.commands
    assert (4, 1, []) == (applied.records, applied.rejected, applied.dead_letters)
    wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value"
    assert [(2, "HSET", wrong_type)] == applied.rejections


def test_rejections_are_counted_all_and_shown_in_part(machine: Machine) -> None:
    """A flood of rejections is counted whole, while the list for the logs stays short."""
    applied = machine.apply([event(n, "HSET h f v g") for n in range(100)], 0)

    assert (100, 16) == (applied.rejected, len(applied.rejections))


DEAD = {
    "NOSUCH a b": "ERR unknown command 'NOSUCH'",
    "GET": "ERR wrong number of arguments for 'get' command",
    "GET a b": "ERR wrong number of arguments for 'get' command",
    "HSET h f": "ERR wrong number of arguments for 'hset' command",
    "dbsize": "DBSIZE reads what is physically there: it cannot be an event",
}


@pytest.mark.parametrize("command_line", DEAD)
def test_dead_letters_change_nothing(store: MemoryStore, machine: Machine, command_line: str) -> None:
    """What can never be applied has its reason, has no outcome, and changes nothing but position and clock."""
    send(machine, "SET a 1")
    before = records_of(store)
    applied = apply(machine, event(1, command_line))
    machine.commit(FINGERPRINT)

    assert ([(1, DEAD[command_line])], {}) == (applied.dead_letters, applied.outcomes)
    assert [record for record in before if record[0] != "system"] == [
        record for record in records_of(store) if record[0] != "system"
    ]


def test_an_undecodable_record_is_a_dead_letter(machine: Machine) -> None:
    """A record that could not be read comes with its reason, which is what the dead letter says."""
    applied = machine.apply([(0, NOW_MS, b"", [b"not msgpack \xff"], 0, None, None)], 0)

    assert [(0, "not msgpack \\xff")] == applied.dead_letters


@pytest.mark.parametrize("db", [-1, 16, 1 << 70])
def test_a_database_out_of_range_is_a_dead_letter(machine: Machine, db: int) -> None:
    """Standalone there are 16 databases."""
    assert [f"db {db} is out of range, there are 16"] == send(machine, "SET a 1", db=db)
    assert ["OK", "OK"] == [reply.decode() for reply in send(machine, "SET a 1", db=15) + send(machine, "SET a 1")]


# ------------------------------------------------------------------------------------------------- what stops it


@pytest.mark.usefixtures("bug")
def test_a_bug_stops_the_partition_and_forgets_the_batch(store: MemoryStore, machine: Machine) -> None:
    """A bug names its offset and cause; all since the last commit is forgotten, and what was before can be applied."""
    send(machine, "INCR n")
    records = [event(1, "INCR n"), event(2, "HSET h f v"), event(3, "BUG n"), event(4, "INCR n")]
    with pytest.raises(
        PartitionStoppedError,
        match=r"^offset 3 \(BUG\) cannot be applied: ZeroDivisionError in tests\.engine\.[\w.]+, line \d+$",
    ) as caught:
        apply(machine, *records)

    assert (3, ZeroDivisionError) == (caught.value.offset, type(caught.value.cause))
    assert (1, b"1") == (machine.next_offset, machine.read(b"GET", [b"n"]))
    assert {1: 2, 2: 1} == apply(machine, *records[:2]).outcomes
    machine.commit(FINGERPRINT)
    other = new_store()
    feed(open_machine(other), [event(0, "INCR n"), *records[:2]], 1)
    assert records_of(other) == records_of(store)


@pytest.mark.usefixtures("bug")
def test_a_skipped_record_is_passed_by(store: MemoryStore, machine: Machine) -> None:
    """After `slotlog skip` the record that stops the partition is counted as skipped, and the next ones are applied."""
    send(machine, "INCR n")
    store.write(skip_changes(1))
    machine = open_machine(store)
    applied = apply(machine, event(1, "BUG n", at_ms=NOW_MS + 9), event(2, "INCR n"))

    assert (1, {2: 2}, 3) == (applied.skipped, applied.outcomes, applied.next_offset)
    assert NOW_MS == machine.clock_ms
    machine.commit(FINGERPRINT)
    assert ((1, 2),) == open_machine(store).position.skips


@pytest.mark.usefixtures("bug")
def test_a_command_that_changes_before_it_fails_is_found(machine: Machine) -> None:
    """The canary: `verify` sees that CHEAT broke the rule that nothing is changed before all is checked."""
    with pytest.raises(PartitionStoppedError, match="b'CHEAT' changed something before it failed"):
        apply(machine, event(0, "CHEAT a"))


@pytest.mark.parametrize("error", [MemoryError(), RecursionError()])
def test_exhaustion_stops_the_partition(machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A record that exhausts memory or the stack stops the partition: elsewhere it might have been applied."""

    def exhausted(*_: object) -> None:
        raise error

    monkeypatch.setattr(machine._executor, "apply", exhausted)
    with pytest.raises(PartitionStoppedError, match=type(error).__name__):
        apply(machine, event(0, "SET a 1"))


def test_newer_rules_stop_the_partition(machine: Machine) -> None:
    """An event that asks for rules which this engine does not know stops it; the known ones are obeyed."""
    assert [b"OK", b"OK"] == send(machine, "RULES 1", f"RULES {RULES}")
    with pytest.raises(
        PartitionStoppedError, match=rf"offset 2 .* asks for rules {RULES + 1}, this slotlog knows {RULES}"
    ):
        apply(machine, event(2, f"RULES {RULES + 1}"))
    older, word = send(machine, "RULES 1", "RULES x")
    assert f"ERR the partition follows rules {RULES} already" == older.message
    assert "ERR the rules number is not an integer" == word.message
