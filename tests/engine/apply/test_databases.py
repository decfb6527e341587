"""SELECT inside a transaction and SWAPDB: logical databases, wherever their records are stored."""

from __future__ import annotations

from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from engine.errors import CommandError
from engine.proof.digest import digest
from engine.proof.walk import live_keys
from engine.store.memory import MemoryStore
from engine.values.replies import OK
from tests.engine.apply.test_exec import steps
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, family, new_store, open_machine, send
from tests.engine.workload import random_records
from tests.layouts import home_of, layout_of

CLUSTER = home_of("topic", 0, 4)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.fixture
def machine(store: MemoryStore) -> Machine:
    """Its machine."""
    return open_machine(store)


def messages(reply: Any) -> Any:
    """A reply, with the messages of errors in their place."""
    if isinstance(reply, list):
        return [messages(element) for element in reply]
    return reply.message if isinstance(reply, CommandError) else reply


def contents(store: MemoryStore, now_ms: int = NOW_MS) -> list[tuple[int, bytes, int, int, list[bytes]]]:
    """All live keys with what they hold."""
    return [(*key[:4], list(key.content)) for key in live_keys(store, layout_of(), now_ms)]


# ------------------------------------------------------------------ SELECT


def test_select_holds_for_the_steps_after_it(machine: Machine) -> None:
    """Up to the next SELECT and the end of the transaction; the next event has its own database again."""
    send(machine, steps("SET a 0", "SELECT 3", "SET a 3", "select 1", "SET a 1"), "SET b 0")

    assert [b"0", b"1", b"3"] == [machine.read(b"GET", [b"a"], db) for db in (0, 1, 3)]
    assert b"0" == machine.read(b"GET", [b"b"])


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ("16", "ERR DB index is out of range"),
        ("-1", "ERR DB index is out of range"),
        ("x", "ERR value is not an integer or out of range"),
        ("2147483648", "ERR value is out of range, value must between -2147483648 and 2147483647"),
    ],
)
def test_a_select_that_fails_changes_nothing(index: str, error: str, machine: Machine) -> None:
    """It is that step's error; the steps after it stay where they were."""
    assert [[OK, error, OK]] == messages(send(machine, steps("SELECT 2", f"SELECT {index}", "SET a v")))
    assert b"v" == machine.read(b"GET", [b"a"], 2)


def test_a_select_is_run_whether_anybody_waits_or_not(store: MemoryStore) -> None:
    """It is no read that can be left out."""
    machine = open_machine(store)
    machine.apply([event(0, steps("SELECT 2", "SET a v"))], 0)

    assert b"v" == machine.read(b"GET", [b"a"], 2)


def test_select_is_no_event_of_its_own(machine: Machine) -> None:
    """An event says its database; and in cluster mode there is one."""
    assert ["SELECT is no event: it stands in a transaction"] == send(machine, "SELECT 3")
    assert ["SELECT cannot be part of a transaction"] == send(open_machine(new_store(), CLUSTER), steps("SELECT 0"))


# ------------------------------------------------------------------ SWAPDB


def test_swapped_databases_have_each_others_keys(machine: Machine) -> None:
    """In the same batch, after the commit, and for reads, counts and flushes."""
    send(machine, "SET a 0", "HSET h f v")
    send(machine, "SET a 1", db=1)
    apply(machine, event(3, "SWAPDB 0 1"), event(4, "SET b 0"))

    for _ in range(2):
        assert [b"1", b"0"] == [machine.read(b"GET", [b"a"], db) for db in (0, 1)]
        assert [2, 2, 0] == [machine.read(b"DBSIZE", [], db) for db in (0, 1, 2)]
        assert {(0, 1): 2, (1, 1): 1, (1, 2): 1} == machine.key_counts
        machine.commit(FINGERPRINT)

    send(machine, "FLUSHDB")

    assert [0, 2] == [machine.read(b"DBSIZE", [], db) for db in (0, 1)]


def test_what_is_swapped_stays_swapped(store: MemoryStore) -> None:
    """In the state that is opened again; two swaps of the same leave no trace, three databases may go round."""
    machine = open_machine(store)
    send(machine, "SET a 0", "SWAPDB 0 1", "SWAPDB 1 2")
    machine = open_machine(store)

    assert [None, None, b"0"] == [machine.read(b"GET", [b"a"], db) for db in (0, 1, 2)]
    assert [b"database/0", b"database/1", b"database/2"] == swapped(store)

    send(machine, "SWAPDB 2 1", "SWAPDB 1 0")

    assert b"0" == open_machine(store).read(b"GET", [b"a"])
    assert [] == swapped(store)


def swapped(store: MemoryStore) -> list[bytes]:
    """The records that say where databases are."""
    return [name for name in family(store, "system") if name.startswith(b"database/")]


def test_a_rollback_takes_a_swap_back(machine: Machine) -> None:
    """As everything that is not committed."""
    send(machine, "SET a 0")
    apply(machine, event(1, "SWAPDB 0 1"))
    machine.rollback()

    assert b"0" == machine.read(b"GET", [b"a"])


def test_a_swap_in_a_transaction_holds_for_its_next_step(machine: Machine) -> None:
    """The steps after it see the other keys."""
    send(machine, "SET a 0")

    assert [[b"0", OK, None, OK, b"0"]] == send(machine, steps("GET a", "SWAPDB 0 1", "GET a", "SELECT 1", "GET a"))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("SWAPDB x 16", "ERR invalid first DB index"),
        ("SWAPDB 16 x", "ERR invalid second DB index"),
        ("SWAPDB 0 2147483648", "ERR invalid second DB index"),
        ("SWAPDB 16 0", "ERR DB index is out of range"),
        ("SWAPDB 0 -1", "ERR DB index is out of range"),
    ],
)
def test_databases_that_are_not_there_cannot_be_swapped(line: str, error: str, machine: Machine) -> None:
    """Redis' texts, in its order."""
    assert [error] == messages(send(machine, line))


def test_cluster_mode_has_nothing_to_swap() -> None:
    """There is one database: as an event of its own and in a transaction it is a dead letter."""
    machine = open_machine(new_store(), CLUSTER)

    assert ["ERR SWAPDB is not allowed in cluster mode"] == send(machine, "SWAPDB 0 1")
    assert ["SWAPDB cannot be part of a transaction"] == send(machine, steps("SWAPDB 0 1"))


def _renamed(record: Record, numbers: dict[int, int]) -> Record:
    """The record with other databases: its own, and those that MOVE and COPY name."""
    offset, at_ms, name, args, db, event_id, session = record
    commands = list(args) if name == b"EXEC" else [[name, *args]]
    for at, words in enumerate(commands):
        if words[0] == b"MOVE" or b"DB" in words[1:]:
            place = 2 if words[0] == b"MOVE" else words.index(b"DB") + 1
            commands[at] = [*words[:place], b"%d" % numbers[int(words[place])], *words[place + 1 :]]
    args = commands if name == b"EXEC" else commands[0][1:]
    return offset, at_ms, name, args, numbers.get(db, db), event_id, session


@pytest.mark.parametrize("seed", range(5))
def test_a_swapped_state_is_that_which_was_written_so(seed: int) -> None:
    """Records, then swaps, then more records: counts, walks and digests show logical databases alone."""
    records = random_records(seed, 300)
    renamed = {0: 1, 1: 2, 2: 0}
    written, swapped_twice = new_store(), new_store()
    direct, machine = open_machine(written), open_machine(swapped_twice)
    first, later = records[:200], records[200:]
    direct.apply([_renamed(record, renamed) for record in first], 0)
    machine.apply(first, 0)
    apply(machine, event(900, "SWAPDB 0 1", at_ms=0), event(901, "SWAPDB 0 2", at_ms=0))
    for each in (direct, machine):
        each.apply([(1000 + record[0], *record[1:]) for record in later], each.next_offset)
        each.commit(FINGERPRINT)

    assert sorted(contents(written, direct.clock_ms)) == sorted(contents(swapped_twice, machine.clock_ms))
    assert digest(written, layout_of(), direct.clock_ms) == digest(swapped_twice, layout_of(), machine.clock_ms)
    assert {counted: n for counted, n in direct.key_counts.items() if n} == {
        counted: n for counted, n in machine.key_counts.items() if n
    }
