"""The record of SETCLOCK itself: alone in its batch, and whatever its own time, which a wrong clock may have given."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import CommandError, DueLeftError, PartitionStoppedError
from engine.replies import OK
from engine.set_back import is_set_back
from engine.store.memory import MemoryStore
from tests.engine.harness import NOW_MS, apply, event, new_store, open_machine, send
from tests.engine.test_set_back import AHEAD_MS, violations


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.mark.parametrize("others", [["TICK"], ["DEL s"], []])
def test_it_stands_alone_in_its_batch(store: MemoryStore, others: list[str]) -> None:
    """What follows is judged by the new clock, and a record before may have moved the old one: neither is with it."""
    machine = open_machine(store)
    send(machine, "TICK", at_ms=AHEAD_MS)
    line = f"SETCLOCK {AHEAD_MS} {NOW_MS}"
    for batch in ([*others, line], [line, *others]):
        records = [event(1 + place, each, at_ms=NOW_MS) for place, each in enumerate(batch)]
        if others:
            with pytest.raises(PartitionStoppedError) as stopped:
                apply(machine, *records)
            assert (1 + batch.index(line), DueLeftError) == (stopped.value.offset, type(stopped.value.__cause__))

    assert AHEAD_MS == machine.clock_ms
    assert OK == send(machine, line, at_ms=NOW_MS)[0]


def test_its_own_time_does_not_count(store: MemoryStore) -> None:
    """The clock that gave it may be the one that is wrong: it sets the clock from where that stood; nothing dies."""
    machine = open_machine(store)
    send(machine, "TICK", at_ms=NOW_MS + 1000)
    send(machine, "SET lock mine PX 5000", at_ms=NOW_MS + 1000)

    assert [OK] == send(machine, f"SETCLOCK {NOW_MS + 1000} {NOW_MS}", at_ms=AHEAD_MS)
    assert (NOW_MS, b"mine") == (machine.clock_ms, machine.read(b"GET", [b"lock"]))
    assert ((NOW_MS + 1000, NOW_MS),) == open_machine(store).position.set_backs
    assert [] == violations(store)


def test_its_own_time_counts_where_it_is_refused(store: MemoryStore) -> None:
    """As that of any record. And it is not told from where the clock stood, but where that stands."""
    machine = open_machine(store)
    send(machine, "TICK")
    (refused,) = send(machine, f"SETCLOCK {NOW_MS + 7} {NOW_MS}", at_ms=NOW_MS + 7)
    (again,) = send(machine, f"SETCLOCK {NOW_MS} 0", at_ms=NOW_MS + 9)

    assert isinstance(refused, CommandError)
    assert f"ERR the partition's clock stands at {NOW_MS} ms, not at {NOW_MS + 7}" == refused.message
    assert isinstance(again, CommandError)
    assert f"ERR the partition's clock stands at {NOW_MS + 9} ms, not at {NOW_MS}" == again.message
    assert NOW_MS + 9 == machine.clock_ms


@pytest.mark.parametrize(
    ("expected", "line", "options"),
    [
        (True, "SETCLOCK 100 0", {}),
        (True, "setclock 100 99", {}),
        (False, "SETCLOCK 99 0", {}),
        (False, "SETCLOCK 100 100", {}),
        (False, "SETCLOCK 100 -1", {}),
        (False, "SETCLOCK soon 0", {}),
        (False, "SETCLOCK 100", {}),
        (False, "SETCLOCK 100 0", {"event_id": b"id"}),
        (False, "TICK 100 0", {}),
    ],
)
def test_which_record_sets_a_clock(expected: bool, line: str, options: dict[str, Any]) -> None:
    """What a partition whose clock stands at 100 does not hold, however late: just what it will apply."""
    assert expected == is_set_back(event(0, line, **options), 100)
