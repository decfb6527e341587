"""Transactions: an EXEC is checked whole before anything runs; then each of its commands stands or falls alone."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from engine.apply.machine import Machine
from engine.errors import CommandError
from engine.proof.digest import digest
from engine.values.replies import OK
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, feed, new_store, open_machine, records_of, send
from tests.layouts import layout_of

DRAWS: Final = ["SRANDMEMBER s", "SRANDMEMBER s 3", "SRANDMEMBER s -3", "HRANDFIELD h", "ZRANDMEMBER z 2", "SPOP s 2"]


@pytest.fixture
def machine() -> Machine:
    """The machine of an empty store."""
    return open_machine(new_store())


def steps(*lines: str) -> list[list[bytes]]:
    """The commands of an EXEC, words between spaces."""
    return [line.encode().split(b" ") for line in lines]


def test_the_reply_is_that_of_each_command(machine: Machine) -> None:
    """Each command sees the ones before it, names may be in any case, and reads may be among them."""
    assert [[OK, 2, b"2"]] == send(machine, steps("SET n 1", "incr n", "Get n"))


def test_an_empty_exec_replies_with_nothing(machine: Machine) -> None:
    """An EXEC without commands is applied and has an empty reply, as in Redis."""
    assert [[]] == send(machine, [])


def test_a_failed_command_does_not_stop_the_others(machine: Machine) -> None:
    """A rejection inside an EXEC is one of its replies; what comes before and after it is done."""
    applied = apply(machine, event(0, steps("SET a x", "INCR a", "SET b 1")))
    first, error, last = applied.outcomes[0]

    assert (OK, OK) == (first, last)
    assert isinstance(error, CommandError)
    assert "ERR value is not an integer or out of range" == error.message
    assert [(0, "INCR", error.message)] == applied.rejections
    assert {b"SET": 2, b"INCR": 1} == applied.commands
    assert b"1" == machine.read(b"GET", [b"b"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("NOSUCH a", "ERR unknown command 'NOSUCH'"),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("EXEC", "ERR unknown command 'EXEC'"),
        ("TICK", "TICK cannot be part of a transaction"),
        ("RULES 1", "RULES cannot be part of a transaction"),
        ("DBSIZE", "DBSIZE reads what is physically there: it cannot be an event"),
    ],
)
def test_an_exec_is_checked_whole(machine: Machine, line: str, reason: str) -> None:
    """One command that can never be applied makes the whole EXEC a dead letter: the others did not run."""
    send(machine, "SET n 1")
    before = machine.read(b"GET", [b"n"])
    applied = apply(machine, event(1, steps("INCR n", line, "INCR n"), at_ms=NOW_MS + 5))
    machine.commit(FINGERPRINT)

    assert ([(1, reason)], {}, {}) == (applied.dead_letters, applied.outcomes, applied.commands)
    assert before == machine.read(b"GET", [b"n"])
    assert NOW_MS + 5 == machine.clock_ms


def test_flushes_may_be_part_of_a_transaction(machine: Machine) -> None:
    """Standalone, FLUSHDB and FLUSHALL may stand in an EXEC, as in Redis, between other commands."""
    send(machine, "SET a 1", "HSET h f v")

    assert [[OK, OK, 1, None]] == send(machine, steps("SET b 1", "FLUSHDB", "HSET h f w", "GET b"))
    assert [(b"f", b"w")] == machine.read(b"HGETALL", [b"h"])
    assert 1 == machine.read(b"DBSIZE", [])


def test_an_exec_runs_in_its_database(machine: Machine) -> None:
    """The event's `db` is that of all its commands; one that does not exist is refused."""
    send(machine, steps("SET a 1", "SET b 2"), db=3)

    assert [b"1", None] == [machine.read(b"GET", [b"a"], db) for db in (3, 0)]
    assert ["db 16 is out of range, there are 16"] == send(machine, steps("SET a 1"), db=16)


def test_an_exec_has_one_time(machine: Machine) -> None:
    """All commands of an EXEC see the same time, that of its record."""
    (reply,) = send(machine, steps("SET a 1 PX 100", "PTTL a"), at_ms=NOW_MS)

    assert [OK, 100] == reply


def test_an_exec_equals_its_commands_one_by_one() -> None:
    """An EXEC leaves the records that its commands would leave as events of the same time, position aside."""
    lines = ("HSET h f v", "SET a 1 PX 50", "DEL h", "HSET h g w", "INCR a", "HDEL h g")
    one, many = new_store(), new_store()
    send(open_machine(one), steps(*lines))
    send(open_machine(many), *lines)

    assert [record for record in records_of(one) if record[1] != b"next_offset"] == [
        record for record in records_of(many) if record[1] != b"next_offset"
    ]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_does_not_depend_on_who_waits(seed: int) -> None:
    """The reads of an EXEC run only if somebody waits for it; its SPOPs take the same members either way."""
    random = Random(seed)
    filled = [line for n in range(60) for line in (f"SADD s m{n}", f"HSET h f{n} v", f"ZADD z {n} m{n}")]
    records = [event(0, steps(*filled))]
    records += [event(offset, steps(*random.choices(DRAWS, k=5), "SPOP s")) for offset in range(1, 9)]
    live, replayed = new_store(), new_store()
    machine = open_machine(live)
    apply(machine, *records)
    machine.commit(FINGERPRINT)
    feed(open_machine(replayed), records, len(records))

    assert digest(live, layout_of(), NOW_MS) == digest(replayed, layout_of(), NOW_MS)


def test_the_commands_of_an_exec_draw_differently(machine: Machine) -> None:
    """Each command draws its own numbers: equal reads of one EXEC are not all answered alike."""
    send(machine, steps(*(f"SADD s m{n}" for n in range(60))))
    (drawn,) = send(machine, steps(*["SRANDMEMBER s"] * 20))

    assert len(set(drawn)) > 5
