"""Hashes where replies do not show it: the stored records, and what a batch writes."""

from __future__ import annotations

import pytest

from engine.layouts.layout import Kind
from engine.model import HASH, Metadata
from engine.values.encoding import pack_u64
from engine.values.replies import OK
from tests.engine.commands.watched import WatchedStore
from tests.engine.harness import NOW_MS, new_store, open_machine, send
from tests.engine.stored import key_of, prefix_of, stored
from tests.layouts import differences, layout_of
from tests.layouts.differences import count_of, is_uncounted

KEY = key_of(b"h")
VERSION = NOW_MS * 1000 << 11  # of a key made at NOW_MS
PREFIX = prefix_of(b"h", VERSION)


def metadata(size: int) -> bytes:
    """The metadata value of a hash that never expires."""
    return layout_of().pack_metadata(Metadata(HASH, 0, VERSION, size))


def test_a_hash_is_one_metadata_record_and_one_record_for_each_field() -> None:
    """The records are those of engine/FORMAT.md, byte for byte; empty fields and empty values are like others."""
    store = new_store()

    replies = send(open_machine(store), [[b"HSET", b"h", b"name", b"carol", b"", b"\x00", b"z", b""]])

    assert [[3]] == replies
    assert {KEY: metadata(3)} == stored(store, Kind.METADATA)
    assert {PREFIX + b"name": b"carol", PREFIX: b"\x00", PREFIX + b"z": b""} == stored(store, Kind.DATA)


@pytest.mark.exact
@pytest.mark.parametrize("before", [[], ["HSET h x 1", "DEL h"], ["HSET h a 0"]])
def test_a_field_given_twice_counts_once(before: list[str]) -> None:
    """The last of its values stays, in a new hash as in one that was there."""
    machine = open_machine(new_store())
    send(machine, *before)

    is_there = before == ["HSET h a 0"]
    assert [2 - is_there, 2, [b"3", b"2"]] == send(machine, "HSET h a 1 b 2 a 3", "HLEN h", "HMGET h a b")


def test_a_change_of_values_alone_leaves_the_metadata_record_alone() -> None:
    """HSET, HMSET, HINCRBY and HINCRBYFLOAT of fields that exist write their field and nothing else."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "HSET h a 1 b 2 c 3 d 4")

    replies = send(machine, "HSET h a 5", "HMSET h b 6", "HINCRBY h c 4", "HINCRBYFLOAT h d 4.5", "HSETNX h a 9")

    (set_again,) = differences.replies(b"HSET", [b"h", b"a", b"5"], 0)
    assert [set_again, OK, 7, b"8.5", 0] == replies
    assert {
        Kind.DATA: {PREFIX + b"a": b"5", PREFIX + b"b": b"6", PREFIX + b"c": b"7", PREFIX + b"d": b"8.5"}
    } == store.written


def test_an_increment_of_an_absent_field_counts_it() -> None:
    """HINCRBY, HINCRBYFLOAT and HSETNX make a field, and with the first one the hash."""
    store = new_store()
    machine = open_machine(store)

    assert [-3, b"0.5", 1] == send(machine, "HINCRBY h a -3", "HINCRBYFLOAT h b 0.5", "HSETNX h c x")
    assert {KEY: metadata(3)} == stored(store, Kind.METADATA)


@pytest.mark.exact
def test_deleting_fields_deletes_their_records() -> None:
    """HDEL writes one delete for each field that was there, a field named twice counted once, and the new size."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "HSET h a 1 b 2 c 3")

    assert [2] == send(machine, "HDEL h a none b a")
    assert {Kind.METADATA: {KEY: metadata(1)}, Kind.DATA: {PREFIX + b"a": None, PREFIX + b"b": None}} == store.written


@pytest.mark.exact
def test_a_hash_without_fields_is_gone() -> None:
    """HDEL of the last field deletes the metadata record too; nothing is left for the reclaimer."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "HSET h a 1")

    assert [1, 0] == send(machine, "HDEL h a", "EXISTS h")
    assert {Kind.METADATA: {KEY: None}, Kind.DATA: {PREFIX + b"a": None}} == store.written


def test_deleting_a_hash_touches_none_of_its_fields() -> None:
    """DEL writes two records whatever the size, the metadata delete and a grave, and walks over no elements."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, *(f"HSET h field{number} value" for number in range(1000)))
    store.gets = store.scanned = 0

    assert [1] == send(machine, "DEL h")
    grave = pack_u64(NOW_MS) + pack_u64(VERSION)
    buried = b"\x02" + count_of(1000).to_bytes(8, "big") + KEY
    assert {Kind.METADATA: {KEY: None}, "graveyard": {grave: buried}} == store.written
    looked = is_uncounted()  # at the first one, whether there is any
    assert (0, looked, []) == (store.gets, store.scanned, store.ranges)


def test_replies_come_in_stored_order_inside_a_batch_and_after_it() -> None:
    """HGETALL, HKEYS and HVALS give fields by their bytes, wherever they stand: store, batch or both."""
    reads = ["HGETALL h", "HKEYS h", "HVALS h"]
    machine = open_machine(new_store())
    send(machine, "HSET h b 1 d 2")

    inside = send(machine, "HSET h c 3 a 4", "HDEL h d", *reads)[2:]
    after = send(machine, *reads)

    assert [[(b"a", b"4"), (b"b", b"1"), (b"c", b"3")], [b"a", b"b", b"c"], [b"4", b"1", b"3"]] == inside
    assert inside == after
