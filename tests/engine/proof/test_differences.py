"""Two states are held against each other, and what differs is named."""

from __future__ import annotations

from random import Random

import pytest

from engine.apply.machine import Machine
from engine.proof import differences as module
from engine.proof.differences import View, differences, sums_of
from engine.proof.digest import KEY, LIBRARY_TYPE, SCRIPT_TYPE, Item, digest
from engine.store.memory import MemoryStore
from tests.engine.harness import NOW_MS
from tests.layouts import column_families, home_of

SCRIPT = "return 1"
SHA1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"


def state(*commands: tuple[bytes, ...], db: int = 0) -> View:
    """The state that these commands make."""
    store = MemoryStore(column_families())
    machine = Machine(store, home_of("t", 0, 1))
    records = [(offset, NOW_MS, name, list(args), db, None, None) for offset, (name, *args) in enumerate(commands)]
    machine.apply(records, 0)
    machine.commit(None)
    return View(store, machine.layout, machine.clock_ms)


def differing(first: View, second: View, count: int = 100) -> list[Item]:
    """What is not the same in both."""
    told: list[int] = []
    sums = [sums_of(view, told.append) for view in (first, second)]
    assert [digest(*view) for view in (first, second)] == [each.digest for each in sums]
    return differences(first, sums[0], second, sums[1], count)


def test_equal_states_differ_in_nothing() -> None:
    """Whatever the order in which they came to be."""
    commands = [(b"SET", b"a", b"1"), (b"HSET", b"h", b"f", b"v"), (b"RPUSH", b"l", b"x")]

    assert [] == differing(state(*commands), state(*reversed(commands)))
    assert [] == differing(state(), state())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([(b"SET", b"a", b"1")], [(b"SET", b"a", b"2")], [(0, b"a", KEY)]),
        ([(b"SET", b"a", b"1")], [], [(0, b"a", KEY)]),
        ([], [(b"SET", b"a", b"1"), (b"SADD", b"b", b"x")], [(0, b"a", KEY), (0, b"b", KEY)]),
        ([(b"SADD", b"k", b"x")], [(b"HSET", b"k", b"x", b"")], [(0, b"k", KEY)]),
        ([(b"SET", b"a", b"1", b"PX", b"5")], [(b"SET", b"a", b"1")], [(0, b"a", KEY)]),
        ([(b"SCRIPT|LOAD", SCRIPT.encode())], [], [(0, bytes.fromhex(SHA1), SCRIPT_TYPE)]),
        ([(b"FUNCTION|LOAD", LIBRARY.encode())], [], [(0, b"lib", LIBRARY_TYPE)]),
    ],
)  # fmt: skip
def test_what_differs_is_named(
    first: list[tuple[bytes, ...]], second: list[tuple[bytes, ...]], expected: list[Item]
) -> None:
    """Another value, type or time to live, and what is in one of them alone, whichever that is."""
    assert expected == differing(state(*first), state(*second)) == differing(state(*second), state(*first))


def test_one_name_in_two_databases() -> None:
    """They are two keys."""
    assert [(0, b"a", KEY), (1, b"a", KEY)] == differing(state((b"SET", b"a", b"1")), state((b"SET", b"a", b"1"), db=1))


@pytest.mark.parametrize("at_once", [1, 100, 100_000])
def test_among_many(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Of thousands of keys just those are named that differ, in however many walks; or as many as are asked for."""
    monkeypatch.setattr(module, "_ITEMS_AT_ONCE", at_once)
    names = [b"key %d" % number for number in range(3000)]
    changed = sorted(Random(1).sample(names, 20))
    first = state(*((b"SET", name, b"v") for name in names))
    second = state(*((b"SET", name, b"other" if name in changed else b"v") for name in names))

    assert [(0, name, KEY) for name in changed] == differing(first, second)
    assert 3 == len(differing(first, second, 3))
