"""SCAN and its relatives while elements come and go, and what one call costs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.batch.cursors import DIGEST_BITS, Cursors, digest
from engine.layouts.layout import Kind
from engine.store.memory import MemoryStore
from engine.types.generic.scans import cursor_at, slot_of
from slotlog.shared.errors import EventError
from tests.engine.harness import FAMILIES, FINGERPRINT, HOME, apply, event, new_store, open_machine, send
from tests.engine.stored import is_of, key_of
from tests.layouts import layout_of

SAFE_INTEGER = 2**53
CALLS_MAX = 20_000


class _CountingStore(MemoryStore):
    """Counts the metadata records that scans give."""

    read = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for record in super().scan(column_family, start, end, reverse=reverse):
            self.read += is_of(Kind.METADATA, column_family, record[0])
            yield record


def scan_all(machine: Machine, name: bytes = b"SCAN", *args: bytes, before: tuple[bytes, ...] = ()) -> list[bytes]:
    """Everything that calls from 0 to 0 return."""
    cursor, found = b"0", []
    for _ in range(CALLS_MAX):
        cursor, elements = machine.read(name, [*before, cursor, *args])
        found += elements
        if cursor == b"0":
            return found
    raise AssertionError("the scan does not end")


class _Churn:
    """A machine with elements that stay and others that come and go, now and then opened anew or left uncommitted."""

    def __init__(self, seed: int, add: str, remove: str, names: list[str]) -> None:
        self.random = Random(seed)
        self._store = new_store()
        self.machine = Machine(self._store, HOME)
        self._add, self._remove = add, remove
        self.staying, self.others = names[::2], names[1::2]
        self.present: dict[str, None] = {}
        self._toggle(self.staying)

    def disturb(self) -> None:
        """Some elements come or go; often the process starts again and remembers no cursor."""
        self._toggle(self.random.sample(self.others, self.random.randrange(len(self.others))))
        if self.random.randrange(3):
            self.machine.commit(FINGERPRINT)
            if self.random.randrange(2):
                self.machine = Machine(self._store, HOME)

    def _toggle(self, names: list[str]) -> None:
        commands = [(self._remove if name in self.present else self._add).format(name) for name in names]
        apply(self.machine, *(event(offset, line) for offset, line in enumerate(commands, self.machine.next_offset)))
        for name in names:
            if name in self.present:
                del self.present[name]
            else:
                self.present[name] = None

    def scan(self, command: bytes, before: list[bytes], step: int) -> list[str]:
        """One scan under disturbance. What a call returns is there at that moment."""
        cursor, found = b"0", []
        for _ in range(CALLS_MAX):
            count = b"%d" % self.random.randint(1, 30)
            cursor, elements = self.machine.read(command, [*before, cursor, b"COUNT", count])
            names = [element.decode() for element in elements[::step]]
            assert [] == [name for name in names if name not in self.present]
            assert 0 <= int(cursor) < SAFE_INTEGER
            found += names
            if cursor == b"0":
                return found
            self.disturb()
        raise AssertionError("the scan does not end")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shape", ["key-{}", "{{tag}}-{}", "{{tag}}a-long-common-beginning-of-all-names-{}"])
def test_keys_that_stay_are_returned(shape: str, seed: int) -> None:
    """Spread over slots or all in one, whatever comes and goes between calls and whoever forgets: none is skipped."""
    churn = _Churn(seed, "SET {} v", "DEL {}", [shape.format(number) for number in range(500)])

    assert churn.staying == sorted(set(churn.scan(b"SCAN", [], 1)) & set(churn.staying), key=churn.staying.index)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("command", "add", "remove", "step"),
    [
        (b"HSCAN", "HSET c {} v", "HDEL c {}", 2),
        (b"SSCAN", "SADD c {}", "SREM c {}", 1),
        (b"ZSCAN", "ZADD c 1 {}", "ZREM c {}", 2),
    ],
)
def test_elements_that_stay_are_returned(command: bytes, add: str, remove: str, step: int, seed: int) -> None:
    """The same within a collection that is too large for one call."""
    churn = _Churn(seed, add, remove, [f"element-{number}" for number in range(500)])

    assert churn.staying == sorted(set(churn.scan(command, [b"c"], step)) & set(churn.staying), key=churn.staying.index)


def test_a_small_sorted_set_is_scanned_by_score() -> None:
    """All of it at once, as ZRANGE gives it, and as Redis does: libraries rely on it."""
    machine = open_machine(new_store())
    send(machine, "ZADD z 3 a 1 b -inf d 2.5 c 1 aa")

    assert [b"d", b"-inf", b"aa", b"1", b"b", b"1", b"c", b"2.5", b"a", b"3"] == scan_all(
        machine, b"ZSCAN", before=(b"z",)
    )
    assert [b"c", b"2.5"] == scan_all(machine, b"ZSCAN", b"MATCH", b"c", before=(b"z",))


@pytest.mark.parametrize("count", [b"1", b"10", b"1000"])
@pytest.mark.parametrize("shape", ["key-{}", "{{tag}}-{}"])
def test_without_changes_every_key_is_returned_once(shape: str, count: bytes) -> None:
    """A state that stays as it is is returned without repetition, by a process that remembers its cursors."""
    machine = open_machine(new_store())
    names = [shape.format(number) for number in range(300)]
    send(machine, *(f"SET {name} v" for name in names))

    assert sorted(names) == sorted(name.decode() for name in scan_all(machine, b"SCAN", b"COUNT", count))


def test_keys_that_are_due_are_not_returned() -> None:
    """SCAN, KEYS and RANDOMKEY see what is alive, and a scan ends though all keys are due."""
    machine = open_machine(new_store())
    send(machine, *(f"SET k{number} v PXAT 1700000000500" for number in range(100)))
    send(machine, "TICK", at_ms=1_700_000_000_500)

    assert ([], [], None) == (scan_all(machine), machine.read(b"KEYS", [b"*"]), machine.read(b"RANDOMKEY", []))


def test_uncommitted_changes_are_seen() -> None:
    """A read between two commits sees what was applied: new keys, deleted ones, a flush."""
    machine = open_machine(new_store())
    send(machine, "SET a 1", "SET b 1")

    apply(machine, event(machine.next_offset, "DEL a"), event(machine.next_offset + 1, "SET c 1"))
    assert [b"b", b"c"] == sorted(machine.read(b"KEYS", [b"*"]))
    apply(machine, event(machine.next_offset, "FLUSHALL"), event(machine.next_offset + 1, "SET d 1"))
    assert [b"d"] == scan_all(machine)
    assert b"d" == machine.read(b"RANDOMKEY", [])


def test_databases_are_scanned_apart() -> None:
    """SCAN and KEYS see the database that they run in."""
    machine = open_machine(new_store())
    send(machine, "SET a 1")
    send(machine, "SET b 1", db=1)

    assert ([b"a"], [b"b"]) == (machine.read(b"KEYS", [b"*"]), machine.read(b"SCAN", [b"0"], 1)[1])


@pytest.mark.parametrize("shape", ["key-{}", "{{tag}}-{}"])
def test_a_call_reads_a_bounded_number_of_keys(shape: str) -> None:
    """COUNT keys, at most 64 more and the one that follows: however many keys there are, in however few slots."""
    store = _CountingStore(FAMILIES)
    machine = open_machine(store)
    send(machine, *(f"SET {shape.format(number)} v" for number in range(1000)))
    cursor = b"0"
    for _ in range(5):
        store.read = 0
        cursor, _ = machine.read(b"SCAN", [cursor])
        assert store.read <= 10 + 64 + 1


def test_small_collections_come_in_one_call() -> None:
    """Up to 128 elements are returned at once, as Redis returns its small collections, whatever COUNT says."""
    machine = open_machine(new_store())
    send(machine, *(f"SADD s {number}" for number in range(128)))

    cursor, members = machine.read(b"SSCAN", [b"s", b"0", b"COUNT", b"1"])
    assert (b"0", 128) == (cursor, len(members))


def test_a_cursor_stands_at_a_slot() -> None:
    """A cursor with no digest enters its slot at the beginning, which is how a scan goes on in the next partition."""
    machine = open_machine(new_store())
    names = [f"key-{number}" for number in range(100)]
    send(machine, *(f"SET {name} v" for name in names))
    slots = {name: layout_of().cursor_slot(key_of(name.encode())) for name in names}
    middle = sorted(slots.values())[50]

    _, found = machine.read(b"SCAN", [b"%d" % cursor_at(middle), b"COUNT", b"1000"])
    assert sorted(name for name in names if slots[name] >= middle) == sorted(name.decode() for name in found)
    assert middle == slot_of(cursor_at(middle) | 5)


@pytest.mark.parametrize("cursor", [b"5", b"9007199254740991", b"18446744073709551615", b" -1"])
def test_cursors_that_nobody_gave_are_harmless(cursor: bytes) -> None:
    """Any number that Redis takes for a cursor returns some elements or none; the next cursors lead to the end."""
    machine = open_machine(new_store())
    send(machine, "SET a 1", "HSET h f v")

    for name, args in ((b"SCAN", []), (b"HSCAN", [b"h"])):
        reply: list[Any] = machine.read(name, [*args, cursor])
        assert b"0" == reply[0]


def test_no_event_contains_a_scan() -> None:
    """What depends on this process' memory is a read alone."""
    machine = open_machine(new_store())

    assert ["SCAN", "KEYS", "OBJECT|ENCODING"] == [
        reason.split(" ")[0] for reason in send(machine, "SCAN 0", "KEYS *", "OBJECT|ENCODING a")
    ]
    with pytest.raises(EventError, match="writes"):
        machine.read(b"SET", [b"a", b"1"])


def test_elements_of_one_digest_are_not_taken_for_each_other() -> None:
    """The second element that would get a cursor gets none, so the call goes on to another one."""
    cursors = Cursors()
    number = cursors.make((0, 1), b"a")
    cursors._elements[(0, 1), digest(b"b")] = b"a"

    assert (digest(b"a"), 0) == (number, cursors.make((0, 1), b"b"))
    assert b"a" == cursors.find((0, 1), number, ())


def test_few_cursors_are_remembered() -> None:
    """Memory is bounded: old cursors are forgotten, and found again by a walk; very long elements are never kept."""
    cursors = Cursors()
    elements = [b"%d" % number for number in range(5000)]
    numbers = [cursors.make((0, 1), element) for element in elements]
    long = b"x" * 2000

    assert len(cursors._elements) == 4096
    assert (None, b"0") == (cursors.find((0, 1), numbers[0], ()), cursors.find((0, 1), numbers[0], elements))
    assert long == cursors.find((0, 1), cursors.make((0, 1), long), [b"a", long])
    assert max(numbers) < 1 << DIGEST_BITS
