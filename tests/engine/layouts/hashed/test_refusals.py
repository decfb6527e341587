"""A layout without forms of our own refuses one of them and holds the others plainly."""

from __future__ import annotations

import pytest

from engine.errors import CommandError
from engine.layouts.layout import Kind
from engine.model import HASH
from engine.values.rdb.content import Content
from engine.values.rdb.encode import encode
from slotlog.shared.slots import slot
from tests.engine.harness import NOW_MS, apply, new_store, open_machine, records_of, send
from tests.engine.stored import described, key_of, stored
from tests.layouts import layout_of

REFUSED = "ERR the layout hashed cannot hold fields with a time to live"


@pytest.mark.parametrize(
    "command",
    [
        *("HEXPIRE h 9 FIELDS 1 f", "HPEXPIRE h 9 FIELDS 2 g f", "HEXPIREAT h 4102444800 FIELDS 1 f"),
        *("HPEXPIREAT h 4102444800000 FIELDS 1 f", "HSETEX h EX 9 FIELDS 1 f 2", "HSETEX new EX 9 FIELDS 1 f 2"),
        "HGETEX h EX 9 FIELDS 1 f",
    ],
)
def test_a_field_gets_no_time_to_live(command: str) -> None:
    """A command that would give one is refused, and has changed nothing."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSET h f 1 g 2")
    before = described(store)
    (refused,) = send(machine, command)

    assert isinstance(refused, CommandError)
    assert REFUSED == refused.message
    assert before == described(store)
    assert [b"1", 0] == send(machine, "HGET h f", "EXISTS new")


def test_a_dumped_hash_whose_fields_die_is_not_restored() -> None:
    """RESTORE of it is refused as well, and what stood under that name stays."""
    machine = open_machine(new_store())
    payload = encode(Content(HASH, [b"f", b"v"], expires_ms=[4_102_444_800_000]))
    send(machine, "SET k old")
    restore = [b"k", b"0", payload, b"REPLACE"]
    applied = apply(machine, (machine.next_offset, NOW_MS, b"RESTORE", restore, 0, None, None))

    assert [REFUSED] == [str(outcome) for outcome in applied.outcomes.values()]
    assert [b"old"] == send(machine, "GET k")


def test_what_gives_no_time_to_live_works() -> None:
    """Times of fields that have none are told, taken away and left out."""
    machine = open_machine(new_store())

    assert [2, [-1, -2], [-1], [b"1"], 1, [2], 0] == send(
        machine,
        *("HSET h f 1 g 2", "HTTL h FIELDS 2 f none", "HPERSIST h FIELDS 1 f", "HGETEX h FIELDS 1 f"),
        *("HSETEX h FIELDS 1 f 3", "HEXPIRE h 0 FIELDS 1 g", "HEXISTS h g"),
    )


def test_large_values_are_held_plainly() -> None:
    """A string of a mebibyte is one record, and a sorted set of thousands has members and scores and nothing else."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SETRANGE s 1048575 x", "ZADD z " + " ".join(f"{n} m{n}" for n in range(3000)))

    assert 1 << 20 == len(described(store)[key_of(b"s")].value)
    assert [3000, 3000] == [len(stored(store, kind)) for kind in (Kind.DATA, Kind.SCORES)]
    assert [1700, [b"m2999"], 1300] == send(machine, "ZRANK z m1700", "ZRANGE z 2999 2999", "ZCOUNT z (1699 inf")


def test_all_stands_in_one_column_family() -> None:
    """Beside the shared ones there is one, with records of every kind between each other."""
    store = new_store()
    send(open_machine(store), "SET s 1", "HSET h f v", "ZADD z 1 m")

    assert {"records", "system"} == {name for name, _, _ in records_of(store)}
    assert [3, 2, 1] == [len(stored(store, kind)) for kind in (Kind.METADATA, Kind.DATA, Kind.SCORES)]


def test_keys_lie_in_two_orders() -> None:
    """Whoever took the order of metadata for that of subkeys would meet names here where it is another."""
    layout = layout_of()
    keys = sorted(layout.metadata_key(0, slot(name), name) for name in (b"%x" % number for number in range(4096)))

    assert not layout.is_in_one_order
    assert keys != sorted(keys, key=lambda key: layout.prefix(Kind.DATA, key, 1))
