"""Simple events take a shorter way through the machine, and come to the same."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from engine.apply.machine import Applied, Machine, Record
from engine.commands.registry import SPECS
from engine.proof.walk import raw_records
from engine.values.replies import OK
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store
from tests.layouts import home_of, layout_of

SESSION = b"s" * 16
_COMMANDS: tuple[tuple[bytes, list[Any]], ...] = (
    (b"SET", [b"k", b"v"]),
    (b"HSET", [b"h", b"f", b"v"]),
    (b"INCR", [b"k"]),  # refused: no integer
    (b"LPUSH", [b"k", b"e"]),  # refused: of another type
    (b"SET", [b"k"]),  # one argument too few
    (b"GET", [b"k", b"k"]),  # one too many
    (b"get", [b"k"]),
    (b"NOPE", [b"k"]),
    (b"DBSIZE", []),  # no event
    (b"FLUSHDB", []),
    (b"SADD", [b"s", b"a", b"b"]),
    (b"SPOP", [b"s"]),
    (b"TICK", []),
    (b"SETCLOCK", [b"%d" % NOW_MS, b"%d" % (NOW_MS - 1)]),
    (b"EXEC", [[b"INCR", b"n"], [b"GET", b"n"]]),
    (b"WATCH", [b"k"]),
    (b"EVAL", [b"return redis.call('INCR', KEYS[1])", b"1", b"n"]),
)


def _records() -> list[Record]:
    """Each command bare, in another database, bare, with an id twice, and out of time, in three sessions."""
    offsets = count()
    bare = NOW_MS, 0, None
    ways = (bare, (NOW_MS, 3, None), bare, (NOW_MS, 0, b"%d"), (NOW_MS, 0, b"%d"), (-1, 0, None))
    return [
        (next(offsets), time_ms, name, args, db, None if event_id is None else event_id % number, session)
        for session in (None, b"short", SESSION)  # those after a WATCH are looked at
        for number, (name, args) in enumerate(_COMMANDS)
        for time_ms, db, event_id in ways
    ]


def _run(records: list[Record], partitions: int, *, verify: bool) -> object:
    """Everything that comes of these records, whose rejections are looked at or not."""
    store = new_store()
    machine = Machine(store, home_of("topic", 0, partitions), verify=verify)
    found: list[Applied] = []
    for record in records:  # each by itself: who watches is gone for the next one
        found.append(machine.apply([record], record[0], waiting=range(len(records))))
        machine.commit(FINGERPRINT)
    told = [{name: getattr(applied, name) for name in Applied.__slots__} for applied in found]
    return str(told), machine.key_counts, list(raw_records(store, layout_of(0, partitions)))


@pytest.mark.parametrize("partitions", [1, 4])
def test_the_short_way_comes_to_the_same(partitions: int) -> None:
    """Every outcome, dead letter, count and record is the same where nobody looks at what commands change."""
    records = _records()

    assert _run(records, partitions, verify=True) == _run(records, partitions, verify=False)


def test_a_batch_of_both_kinds_keeps_its_order() -> None:
    """Simple events and others in one batch are applied in their order."""
    records = [record for record in _records() if record[2] != b"SETCLOCK"]  # it may stand in no batch behind others
    one_by_one, at_once = new_store(), new_store()
    machine = Machine(one_by_one, home_of("topic", 0, 1))
    for record in records:
        machine.apply([record], machine.next_offset)
        machine.commit(FINGERPRINT)
    machine = Machine(at_once, home_of("topic", 0, 1))
    machine.apply(records, 0)
    machine.commit(FINGERPRINT)

    assert list(raw_records(one_by_one, layout_of())) == list(raw_records(at_once, layout_of()))


def test_no_command_that_needs_a_look_is_simple() -> None:
    """What must be looked at before it runs, or runs others, or is slotlog's own, never takes the short way."""
    simple = Machine(new_store(), home_of("topic", 0, 1))._executor.simple

    assert b"HSET" in simple
    assert not [name for name in simple if SPECS[name].guarded or SPECS[name].runs_others or SPECS[name].internal]


def test_records_of_one_time_in_one_batch() -> None:
    """The clock is where the last of them puts it, also behind one that sets it back; none may be before 1970."""
    machine = Machine(new_store(), home_of("topic", 0, 1))
    machine.apply([(0, NOW_MS, b"TICK", [], 0, None, None)], 0)
    machine.commit(FINGERPRINT)
    commands = (b"SETCLOCK", [b"%d" % NOW_MS, b"%d" % (NOW_MS - 1)]), (b"SET", [b"k", b"w"]), (b"SET", [b"k", b"x"])
    records: list[Record] = [(at, NOW_MS, name, args, 0, None, None) for at, (name, args) in enumerate(commands, 1)]
    early: list[Record] = [(at, -1, b"SET", [b"k", b"early"], 0, None, None) for at in (4, 5)]

    applied = machine.apply([*records, *early], 1)

    assert ([4, 5], {b"SETCLOCK": 1, b"SET": 2}) == ([at for at, _ in applied.dead_letters], applied.commands)
    assert (NOW_MS, b"x") == (machine.clock_ms, machine.read(b"GET", [b"k"]))


def test_a_transaction_counts_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What simple events before it in its batch have written is none of what it may write."""
    monkeypatch.setattr("engine.apply.executor.EXEC_VALUE_BYTES_MAX", 10)
    machine = Machine(new_store(), home_of("topic", 0, 1))
    large: Record = (0, NOW_MS, b"SET", [b"k", b"v" * 20], 0, None, None)
    steps = [[b"SET", b"a", b"v"], [b"SET", b"b", b"v"]]

    applied = machine.apply([large, (1, NOW_MS, b"EXEC", steps, 0, None, None)], 0, waiting={1})

    assert [OK, OK] == applied.outcomes[1]
