"""LINSERT, LREM and LPOS where replies do not show it: what is written, and how much is read."""

from __future__ import annotations

from random import Random

import pytest

from engine.layouts.layout import Kind
from tests.consistency import problems
from tests.engine.harness import WatchedStore, new_store, open_machine, send
from tests.engine.stored import written


def changed(store: WatchedStore) -> int:
    """How many data records the last batch puts or deletes."""
    return len(written(store.batches[-1], Kind.DATA))


@pytest.mark.parametrize(
    ("command", "records"),
    [
        ("LINSERT l BEFORE 2 x", 3),
        ("LINSERT l AFTER 97 x", 3),
        ("LREM l 1 2", 3),
        ("LREM l -1 97", 3),
        ("LREM l 0 0", 1),
        ("LREM m 0 x", 5),
        ("LREM m 1 x", 2),
        ("LREM m -1 x", 3),
    ],
)
def test_the_nearer_end_is_moved(command: str, records: int) -> None:
    """Of a hundred elements, those between the place and the nearer end are written anew, the others are not.

    Of several places the longest run between two stays.
    """
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l " + " ".join(map(str, range(100))))
    send(machine, "RPUSH m 0 x " + " ".join(map(str, range(96))) + " x 99 100")

    send(machine, command)
    assert records == changed(store)


@pytest.mark.parametrize("seed", range(20))
def test_lists_stay_whole(seed: int) -> None:
    """Random insertions and removals, anywhere and of many at once: the elements are a Python list's, without a gap."""
    random = Random(seed)
    store = new_store()
    machine = open_machine(store)
    expected = [str(random.randrange(5)) for _ in range(30)]
    send(machine, "RPUSH l " + " ".join(expected))
    for _ in range(40):
        value, pivot = str(random.randrange(5)), str(random.randrange(5))
        if random.randrange(2) and pivot in expected:
            after = random.randrange(2)
            send(machine, f"LINSERT l {'AFTER' if after else 'BEFORE'} {pivot} {value}")
            expected.insert(expected.index(pivot) + after, value)
        elif len(expected) > 10:
            count = random.randint(-3, 3)
            send(machine, f"LREM l {count} {value}")
            expected = removed(expected, count, value)
        assert [element.encode() for element in expected] == machine.read(b"LRANGE", [b"l", b"0", b"-1"])

    assert [] == problems(store)


def removed(elements: list[str], count: int, value: str) -> list[str]:
    """The elements without the first `count` that equal `value`, the last ones when it is negative."""
    positions = [at for at, element in enumerate(elements) if element == value]
    gone = positions[:count] if count > 0 else positions[count:]
    return [element for at, element in enumerate(elements) if at not in gone]


def test_the_last_element_removed_takes_its_list_away() -> None:
    """LREM of everything deletes the key."""
    machine = open_machine(new_store())

    assert [2, 2, 0] == send(machine, "RPUSH l a a", "LREM l 0 a", "EXISTS l")
