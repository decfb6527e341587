"""`Applied.modified`: which keys the commands of a batch really modified, for a server whose clients wait for keys."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form
from engine.model import HASH, LIST, NONE, STRING, ZSET
from engine.values.replies import OK
from tests.engine.apply.test_exec import steps
from tests.engine.harness import NOW_MS, apply, event, new_store, open_machine, send


@pytest.fixture
def machine() -> Machine:
    """The machine of an empty store, witnessing."""
    machine = open_machine(new_store())
    machine.witnessing = True
    return machine


def test_nothing_is_listed_unless_asked_for() -> None:
    """A machine does not witness by itself, and stops when it is told to."""
    machine = open_machine(new_store())

    assert [] == apply(machine, event(0, "SET k v")).modified

    machine.witnessing = True

    assert 1 == len(apply(machine, event(1, "SET k v")).modified)

    machine.witnessing = False

    assert [] == apply(machine, event(2, "SET k v")).modified


def test_a_key_comes_with_its_command_and_its_types(machine: Machine) -> None:
    """Made, overwritten by another type, written in place, deleted."""
    lines = ["SET k v", "DEL k", "HSET k f v", "HSET k f v", "SET k v"]
    applied = apply(machine, *(event(offset, line, db=3) for offset, line in enumerate(lines)))

    assert [
        (0, 3, b"SET", [b"k", b"v"], 0, b"k", NONE, STRING, NOW_MS),
        (1, 3, b"DEL", [b"k"], 0, b"k", STRING, NONE, NOW_MS),
        (2, 3, b"HSET", [b"k", b"f", b"v"], 0, b"k", NONE, HASH, NOW_MS),
        (3, 3, b"HSET", [b"k", b"f", b"v"], 0, b"k", HASH, HASH, NOW_MS),
        (4, 3, b"SET", [b"k", b"v"], 0, b"k", HASH, STRING, NOW_MS),
    ] == applied.modified


def test_what_modifies_nothing_is_not_listed(machine: Machine) -> None:
    """Reads, rejections, dead letters, duplicates, and writes that find nothing to do."""
    machine.apply([(0, NOW_MS, b"SET", [b"k", b"v"], 0, b"id", None)], 0)
    lines = ["GET k", "INCR k", "LPUSH k v", "SETNX k v", "DEL none", "EXPIRE none 9", "LPUSHX none v", "NOSUCH k"]

    assert [] == apply(machine, *(event(1 + n, line) for n, line in enumerate(lines))).modified
    assert [] == machine.apply([(9, NOW_MS, b"SET", [b"k", b"v"], 0, b"id", None)], 9).modified


def test_commands_with_several_keys_name_those_that_changed(machine: Machine) -> None:
    """By the place among the keys that the command names."""
    send(machine, "SET b 1", "RPUSH from x y")
    lines = ["DEL a b", "MSET a 1 b 2", "LMOVE from to LEFT LEFT", "LMPOP 2 none to LEFT"]
    applied = apply(machine, *(event(2 + n, line) for n, line in enumerate(lines)))

    assert [
        (b"DEL", 1, b"b", STRING, NONE),
        (b"MSET", 0, b"a", NONE, STRING),
        (b"MSET", 1, b"b", NONE, STRING),
        (b"LMOVE", 0, b"from", LIST, LIST),
        (b"LMOVE", 1, b"to", NONE, LIST),
        (b"LMPOP", 1, b"to", LIST, NONE),
    ] == [(name, which, key, before, after) for _, _, name, _, which, key, before, after, _ in applied.modified]


def test_the_commands_of_a_transaction_are_listed_one_by_one(machine: Machine) -> None:
    """Each with its own name, arguments and database; what one of them writes is there for the next."""
    applied = apply(machine, event(0, steps("ZADD z 1 a", "GET z", "SELECT 2", "zpopmin z", "ZADD z 1 a", "ZPOPMIN z")))

    assert [
        (0, 0, b"ZADD", [b"z", b"1", b"a"], 0, b"z", NONE, ZSET, NOW_MS),
        (0, 2, b"ZADD", [b"z", b"1", b"a"], 0, b"z", NONE, ZSET, NOW_MS),
        (0, 2, b"ZPOPMIN", [b"z"], 0, b"z", ZSET, NONE, NOW_MS),
    ] == applied.modified


def test_a_key_that_is_due_is_not_there(machine: Machine) -> None:
    """Written anew it was nothing before; a delete of it modifies nothing."""
    send(machine, "SET k v PX 10", "SET l v PX 10")
    applied = apply(machine, event(2, "DEL l", at_ms=NOW_MS + 10), event(3, "LPUSH k v", at_ms=NOW_MS + 10))

    assert [(3, 0, b"LPUSH", [b"k", b"v"], 0, b"k", NONE, LIST, NOW_MS + 10)] == applied.modified


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_key_that_was_due_and_is_replaced_has_expired(machine: Machine) -> None:
    """It is told with its place, before what took its own; one that is only looked for is left to the sweep."""
    send(machine, "SET a 1 PX 10", "SET b 1 PX 10", "HSETEX h PX 10 FIELDS 1 f v", "SET other 1", "SET c 1 PX 10")
    lines = ["GET a", "DEL b", "HGET h f", "SET other 2", "RENAME other a", "COPY a c REPLACE", "HSET h f v", "INCR b"]
    applied = apply(machine, *(event(5 + n, line, at_ms=NOW_MS + 10) for n, line in enumerate(lines)))

    assert [b"SET", b"RENAME", b"RENAME", b"COPY", b"HSET", b"INCR"] == [modified[2] for modified in applied.modified]
    assert [(2, 0, b"a"), (3, 0, b"c"), (5, 0, b"b")] == applied.expired
    assert [(4, 0, b"h", True)] == applied.expired_fields
    assert [(b"a", NONE), (b"c", NONE), (b"b", NONE)] == [applied.modified[at][5:7] for at, _, _ in applied.expired]
    assert [] == apply(machine, event(13, "INCR b", at_ms=NOW_MS + 10)).expired


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_field_that_was_due_and_is_replaced_has_expired(machine: Machine) -> None:
    """Of a hash that lives on; once for a command, as valkey tells it, and never for a field that is not due."""
    send(machine, "HSET h a 1", "HSETEX h PX 10 FIELDS 3 b 1 c 1 d 1", "HSETEX h PX 20 FIELDS 1 e 1")
    lines = ["HSET h a 2 e 2", "HDEL h b", "HSET h b 2 c 2", "HSETNX h d 2", "HINCRBY h d 1", "HPEXPIRE h 5 FIELDS 1 c"]
    applied = apply(machine, *(event(3 + n, line, at_ms=NOW_MS + 10) for n, line in enumerate(lines)))

    assert [] == applied.expired
    assert [(1, 0, b"h", False), (2, 0, b"h", False)] == applied.expired_fields
    assert [b"HSET", b"HSETNX"] == [applied.modified[at][2] for at, *_ in applied.expired_fields]


def test_a_witness_changes_no_outcome(machine: Machine) -> None:
    """The same outcomes and records, in the batch and after it."""
    silent = open_machine(new_store())
    lines = ["HSET h f v", "HSET h f w g x", "ZADD z 1 a 2 b", "ZADD z 3 a", "RPUSH l a b c", "LPOP l", "HGETALL h"]

    assert send(silent, *lines) == send(machine, *lines)
    assert send(silent, "HDEL h f", "HSET h f y") == send(machine, "HDEL h f", "HSET h f y")
    for read in ([b"HGETALL", b"h"], [b"ZRANGE", b"z", b"0", b"-1"], [b"LRANGE", b"l", b"0", b"-1"]):
        assert silent.read(read[0], read[1:]) == machine.read(read[0], read[1:])


def test_flushes_and_swaps_name_no_keys(machine: Machine) -> None:
    """FLUSHALL, FLUSHDB and SWAPDB modify whatever there is: they count as commands, their keys are not listed."""
    assert [OK, OK] == send(machine, "SET k v", "SET l v", db=1)
    applied = apply(machine, *(event(2 + n, line) for n, line in enumerate(["SWAPDB 0 1", "FLUSHDB", "FLUSHALL"])))

    assert [] == applied.modified
    assert {b"SWAPDB": 1, b"FLUSHDB": 1, b"FLUSHALL": 1} == applied.commands
