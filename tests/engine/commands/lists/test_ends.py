"""Lists where replies do not show it: where elements stand, what a batch writes, how much a read reads."""

from __future__ import annotations

import pytest

from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.model import LIST, LIST_START, Metadata
from engine.values.encoding import pack_u64
from engine.values.replies import OK
from tests.engine.commands.watched import WatchedStore
from tests.engine.harness import NOW_MS, new_store, open_machine, send
from tests.engine.stored import key_of, prefix_of, put, stored
from tests.layouts import layout_of

KEY = key_of(b"l")
VERSION = NOW_MS * 1000 << 11  # of a key made at NOW_MS
PREFIX = prefix_of(b"l", VERSION)


def record(index: int) -> bytes:
    """The data key of the element at `index`, counted from where every list starts."""
    return PREFIX + (LIST_START + index).to_bytes(8, "big")


def metadata(head: int, tail: int) -> bytes:
    """The metadata value of a list that never expires."""
    packed = Metadata(LIST, 0, VERSION, tail - head, LIST_START + head, LIST_START + tail)
    return layout_of().pack_metadata(packed)


def test_elements_stand_from_head_to_before_tail() -> None:
    """RPUSH writes at the tail and LPUSH before the head, from the middle of the 64-bit range, byte for byte."""
    store = new_store()

    assert [2, 4] == send(open_machine(store), "RPUSH l c d", "LPUSH l b a")
    assert {KEY: metadata(-2, 2)} == stored(store, Kind.METADATA)
    assert {
        PREFIX + bytes.fromhex("7ffffffffffffffd"): b"a",
        PREFIX + bytes.fromhex("7ffffffffffffffe"): b"b",
        PREFIX + bytes.fromhex("7fffffffffffffff"): b"c",
        PREFIX + bytes.fromhex("8000000000000000"): b"d",
    } == stored(store, Kind.DATA)


def test_another_element_leaves_the_metadata_record_alone() -> None:
    """LSET writes the element at its index and nothing else."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l a b c")

    assert [OK, OK] == send(machine, "LSET l 0 x", "LSET l -1 z")
    assert {Kind.DATA: {record(0): b"x", record(2): b"z"}} == store.written


def test_a_capped_list_costs_one_write_and_one_delete() -> None:
    """LPUSH and LTRIM of a list at its cap write the new element and delete the oldest one, by its index."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l b c d")

    assert [4, OK] == send(machine, "LPUSH l a", "LTRIM l 0 2")
    assert {Kind.METADATA: {KEY: metadata(-1, 2)}, Kind.DATA: {record(-1): b"a", record(2): None}} == store.written
    assert [] == store.ranges


def test_trimming_both_ends_deletes_what_lies_outside() -> None:
    """LTRIM deletes the elements before its range and behind it, and keeps the others where they are."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l a b c d e")

    assert [OK] == send(machine, "LTRIM l 2 -2")
    gone = {record(0): None, record(1): None, record(4): None}
    assert {Kind.METADATA: {KEY: metadata(2, 4)}, Kind.DATA: gone} == store.written


def test_trimming_nothing_writes_nothing() -> None:
    """LTRIM to a range that holds the whole list is no change."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l a b c")

    assert [OK] == send(machine, "LTRIM l -100 100")
    assert {} == store.written


@pytest.mark.parametrize(("command", "reply"), [("DEL l", 1), ("LTRIM l 5 3", OK)])
def test_deleting_a_list_touches_none_of_its_elements(command: str, reply: object) -> None:
    """DEL, and LTRIM to nothing, write two records whatever the size: the metadata delete and a graveyard entry."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, *(f"RPUSH l {number}" for number in range(1000)))
    store.gets = store.scanned = 0

    assert [reply] == send(machine, command)
    grave, buried = pack_u64(NOW_MS) + pack_u64(VERSION), b"\x03" + pack_u64(1000) + KEY
    assert {Kind.METADATA: {KEY: None}, "graveyard": {grave: buried}} == store.written
    assert (0, 0, []) == (store.gets, store.scanned, store.ranges)


def test_a_list_popped_empty_is_gone() -> None:
    """Pops delete what they return and the metadata record with the last element; nothing is left for the reclaimer."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "RPUSH l a b c")

    assert [b"a", [b"c", b"b"], 0] == send(machine, "LPOP l", "RPOP l 5", "EXISTS l")
    gone = {record(0): None, record(1): None, record(2): None}
    assert {Kind.METADATA: {KEY: None}, Kind.DATA: gone} == store.written


def test_reads_read_what_they_return() -> None:
    """LINDEX and a pop of one element read one record; LRANGE and a pop of more scan theirs alone; LLEN reads none."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, *(f"RPUSH l {number}" for number in range(1000)))
    costs = []

    for command in ("LLEN l", "LINDEX l 500", "LINDEX l -1", "LPOP l", "RPOP l", "LRANGE l 100 104", "LPOP l 7"):
        store.gets = store.scans = store.scanned = 0
        send(machine, command)
        costs.append((command, store.gets, store.scans, store.scanned))

    assert [
        ("LLEN l", 0, 0, 0),
        ("LINDEX l 500", 1, 0, 0),
        ("LINDEX l -1", 1, 0, 0),
        ("LPOP l", 1, 0, 0),
        ("RPOP l", 1, 0, 0),
        ("LRANGE l 100 104", 0, 1, 5),
        ("LPOP l 7", 0, 1, 7),
    ] == costs


@pytest.mark.parametrize("command", ["LPOP l", "LINDEX l 0", "LRANGE l 0 -1", "RPOP l 3"])
@pytest.mark.damaging
def test_a_missing_element_stops_the_partition(command: str) -> None:
    """An index between head and tail without a record is damage, not nil."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "RPUSH l a b c")
    put(store, Kind.DATA, (record(0), None))

    with pytest.raises(CorruptionError):
        send(machine, command)
