"""MEMORY USAGE counts the bytes of a key's records; random keys are drawn."""

from __future__ import annotations

from collections import Counter

from engine.apply.machine import Machine
from engine.layouts.layout import Kind
from tests.engine.harness import HOME, new_store, open_machine, send
from tests.engine.stored import stored


def test_memory_usage_is_the_size_of_the_records() -> None:
    """All samples taken, it is the sum of the lengths of every key and value that is stored, for each type."""
    for line in ("SET k value", "HSET k f v g long", "RPUSH k a bb ccc", "SADD k a bb", "ZADD k 1 a 2.5 bb"):
        store = new_store()
        machine = open_machine(store)
        send(machine, line)
        records = [stored(store, kind).items() for kind in Kind]

        expected = sum(len(key) + len(value) for records_of in records for key, value in records_of)
        assert (line, expected) == (line, machine.read(b"MEMORY|USAGE", [b"k", b"SAMPLES", b"0"]))


def test_memory_usage_of_a_large_value_is_estimated() -> None:
    """The first elements stand for all: with five small ones in front, a thousand of a hundred bytes count as small."""
    machine = open_machine(new_store())
    send(machine, "RPUSH l " + " ".join(["a"] * 5 + ["x" * 100] * 995))

    few, all_of_them = (machine.read(b"MEMORY|USAGE", [b"l", b"SAMPLES", count]) for count in (b"5", b"0"))
    assert all_of_them - few == 995 * 99


def test_random_keys_differ_and_none_is_out_of_reach() -> None:
    """Draws at different positions of the log give every key some time, also where they share a slot."""
    for shape in ("key-{}", "{{tag}}-{}"):
        machine = Machine(new_store(), HOME)
        names = [shape.format(number).encode() for number in range(30)]
        send(machine, *(f"SET {name.decode()} v" for name in names))
        drawn: Counter[bytes] = Counter()
        for _ in range(1000):
            send(machine, "TICK")
            drawn[machine.read(b"RANDOMKEY", [])] += 1

        assert set(names) == set(drawn)
        assert max(drawn.values()) < 200
