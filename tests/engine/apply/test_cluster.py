"""Cluster mode, a topic of several partitions: one database, one slot a command, and only what belongs here."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.proof.digest import Digest, combine, digest
from engine.values.replies import OK
from slotlog.shared.errors import CROSS_SLOT, EventError
from slotlog.shared.slots import partition_of, slot
from tests.engine.harness import NOW_MS, apply, event, new_store, open_machine, send
from tests.layouts import home_of, layout_of

PARTITIONS = 4
BAR, FOO = slot(b"bar"), slot(b"foo")  # 5061 in partition 1, 12182 in partition 2
WRONG = f"slot {FOO} belongs to partition 2, not 1: wrong partitioner"


@pytest.fixture
def machine() -> Machine:
    """Partition 1 of four, empty."""
    return open_machine(new_store(), home_of("topic", 1, PARTITIONS))


def test_the_examples_lie_where_they_are_said_to() -> None:
    """The keys that these tests use belong to the partitions that they are used for."""
    assert (1, 2) == (partition_of(BAR, PARTITIONS), partition_of(FOO, PARTITIONS))


def test_keys_of_this_partition_are_applied(machine: Machine) -> None:
    """Commands of one slot of this partition are applied, several keys of the slot too."""
    assert [OK, OK, [b"1", b"2"]] == send(machine, "SET bar 1", "MSET {bar}x 2 {bar}y 3", "MGET bar {bar}x")


@pytest.mark.parametrize("line", ["SET foo 1", "GET foo", "MSET foo 1", "MGET foo {foo}x", "HSET foo f v", "DEL foo"])
def test_keys_of_another_partition_are_dead_letters(machine: Machine, line: str) -> None:
    """A record that a foreign partitioner put here says where it belongs, reads and commands of many keys alike."""
    assert [WRONG] == send(machine, line)
    assert [[WRONG]] == [send(machine, [line.encode().split(b" ")])]


@pytest.mark.parametrize("line", ["MSET bar 1 {bar}x 2 foo 3", "DEL bar foo", "MGET foo bar"])
def test_keys_of_two_slots_are_refused(machine: Machine, line: str) -> None:
    """Nothing is split: keys of two slots in one command are CROSSSLOT, whoever owns them."""
    assert [CROSS_SLOT] == send(machine, line)


def test_two_slots_of_one_partition_are_refused(machine: Machine) -> None:
    """It is the slot that counts, not the partition: the log must not depend on how it was cut."""
    other = next(b"k%d" % n for n in range(100) if BAR != slot(b"k%d" % n) and partition_of(slot(b"k%d" % n), 4) == 1)

    assert [CROSS_SLOT] == send(machine, f"MSET bar 1 {other.decode()} 2")
    assert [CROSS_SLOT] == send(machine, [[b"SET", b"bar", b"1"], [b"SET", other, b"2"]])
    assert [[OK, OK]] == send(machine, [[b"SET", b"bar", b"1"], [b"SET", b"{bar}x", b"2"]])


def test_a_read_between_writes_does_not_open_the_door(machine: Machine) -> None:
    """A read of another partition's key is refused, and a write to it later in the batch is a dead letter still."""
    apply(machine, event(0, "SET bar 1"))
    with pytest.raises(EventError, match=WRONG):
        machine.read(b"GET", [b"foo"])
    applied = apply(machine, event(1, "SET foo 1"))

    assert [(1, WRONG)] == applied.dead_letters


def test_there_is_one_database(machine: Machine) -> None:
    """A topic of several partitions has database 0 alone, for commands, transactions and reads."""
    reason = "db 1: a topic of several partitions has database 0 alone"

    assert [reason] == send(machine, "SET bar 1", db=1)
    assert [reason] == send(machine, [[b"SET", b"bar", b"1"]], db=1)
    with pytest.raises(EventError, match=reason):
        machine.read(b"GET", [b"bar"], 1)


def test_keyless_commands_act_on_their_partition(machine: Machine) -> None:
    """FLUSHALL and TICK are taken as they come; in an EXEC, which has one slot, they are refused."""
    send(machine, "SET bar 1")

    assert [OK, OK] == send(machine, "TICK", "FLUSHALL")
    assert machine.read(b"GET", [b"bar"]) is None
    assert ["FLUSHALL cannot be part of a transaction"] == send(machine, [[b"FLUSHALL"]])


def test_partitions_add_up() -> None:
    """The digests of the partitions of a topic are together that of the same commands on a single partition."""
    lines = [f"SET k{n} {n} PX {n * 10 + 1}" for n in range(40)] + [f"HSET h{n} f {n}" for n in range(40)]
    single, parts = new_store(), [new_store() for _ in range(PARTITIONS)]
    send(open_machine(single), *lines)
    for partition, store in enumerate(parts):
        key = [line.encode().split(b" ")[1] for line in lines]
        own = [line for line, name in zip(lines, key, strict=True) if partition_of(slot(name), 4) == partition]
        send(open_machine(store, home_of("topic", partition, PARTITIONS)), *own)
    whole = digest(single, layout_of(), NOW_MS + 200)
    digests = [digest(store, layout_of(partition), NOW_MS + 200) for partition, store in enumerate(parts)]

    assert 60 == whole.keys
    assert whole == combine(digests)
    assert whole == sum(digests[::-1], start=Digest())
