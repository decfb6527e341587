"""Simple events take a shorter way through the machine, and come to the same."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from engine.apply.machine import Applied, Machine, Record
from engine.commands.registry import SPECS
from engine.proof.walk import raw_records
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
