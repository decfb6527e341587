"""String commands leave the right records. Other tests compare their replies with Redis."""

from __future__ import annotations

import pytest

from engine.layouts.layout import Kind
from engine.model import HASH, STRING, Metadata
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF
from engine.tables.graveyard import parse_grave
from engine.values.encoding import pack_u64
from engine.values.numbers import INT_MAX
from tests.engine.harness import NOW_MS, family, new_store, open_machine, send
from tests.engine.stored import described, key_of, stored
from tests.layouts.differences import count_of

KEY = key_of(b"k")


def test_a_string_is_one_record() -> None:
    """SET writes one metadata record, which has expire time and value, and nothing else."""
    store = new_store()
    send(open_machine(store), "SET k value")

    assert {KEY: Metadata(STRING, 0, value=b"value")} == described(store)
    assert [{}, {}, {}] == [stored(store, Kind.DATA), family(store, EXPIRY_CF), family(store, GRAVEYARD_CF)]


def test_an_expire_time_is_absolute() -> None:
    """EX counts from the record's own time, and the record and the index both keep the resulting moment."""
    store = new_store()
    send(open_machine(store), "SET k value EX 7")

    assert {KEY: Metadata(STRING, NOW_MS + 7000, value=b"value")} == described(store)
    assert {pack_u64(NOW_MS + 7000) + KEY: b""} == family(store, EXPIRY_CF)


def test_the_latest_expire_time_is_that_of_redis() -> None:
    """A time far beyond the log's last possible one is kept whole, and the first one beyond 63 bits is refused."""
    store = new_store()
    replies = send(open_machine(store), f"SET k value PXAT {INT_MAX}", f"SET k value PX {INT_MAX - NOW_MS + 1}")

    assert [pack_u64(INT_MAX) + KEY] == list(family(store, EXPIRY_CF))
    assert "ERR invalid expire time in 'set' command" == replies[1].message


@pytest.mark.parametrize("committed_between", [True, False])
@pytest.mark.parametrize(
    ("change", "expire_ms"),
    [
        ("SET k b EX 9", NOW_MS + 9000),
        ("SET k b KEEPTTL", NOW_MS + 5000),
        ("SET k b", 0),
        ("SETEX k 9 b", NOW_MS + 9000),
        ("GETEX k PERSIST", 0),
        ("GETEX k PX 1", NOW_MS + 1),
        ("GETEX k", NOW_MS + 5000),
        ("GETSET k b", 0),
        ("GETDEL k", 0),
        ("MSET k b", 0),
        ("APPEND k 0", NOW_MS + 5000),
        ("SETRANGE k 3 x", NOW_MS + 5000),
        ("INCR k", NOW_MS + 5000),
        ("INCRBYFLOAT k 1.5", NOW_MS + 5000),
    ],
)
def test_a_key_has_at_most_one_expiry_entry(change: str, expire_ms: int, *, committed_between: bool) -> None:
    """Whatever replaces or keeps an expire time, in the same batch or the next one, the index lists the key's own."""
    store = new_store()
    machine = open_machine(store)
    if committed_between:
        send(machine, "SET k 1 EX 5")
        send(machine, change)
    else:
        send(machine, "SET k 1 EX 5", change)

    assert ([pack_u64(expire_ms) + KEY] if expire_ms else []) == list(family(store, EXPIRY_CF))


@pytest.mark.parametrize("overwrite", ["SET k v", "SET k v XX", "MSET k v", "SETEX k 9 v"])
def test_overwriting_a_collection_buries_it(overwrite: str) -> None:
    """Its fields stay where they are, and one graveyard entry says whose they were."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSET k f 1 g 2")
    fields = stored(store, Kind.DATA)

    send(machine, overwrite, at_ms=NOW_MS + 1)

    graves = [parse_grave(*record) for record in family(store, GRAVEYARD_CF).items()]
    assert fields == stored(store, Kind.DATA)
    assert [(NOW_MS + 1, HASH, count_of(2), KEY)] == [(g.died_ms, g.type, g.size, g.metadata_key) for g in graves]
    assert 1 == machine.read(b"DBSIZE", [])


@pytest.mark.parametrize("command", ["SET k v PXAT 1", "SET k v EXAT 1 GET", "GETEX k PXAT 1"])
def test_a_time_in_the_past_deletes(command: str) -> None:
    """A string that would be dead at once is not written; the old one goes, with its entry in the index."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET k old EX 5")

    send(machine, command)

    assert [{}, {}] == [stored(store, Kind.METADATA), family(store, EXPIRY_CF)]
    assert 0 == machine.read(b"DBSIZE", [])


def test_a_due_string_is_replaced_in_its_place() -> None:
    """INCR of a string that is due begins at 0 again, without its old time to live, and there is still one key."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET k 41 PX 10")

    assert [1] == send(machine, "INCR k", at_ms=NOW_MS + 10)
    assert {KEY: Metadata(STRING, 0, value=b"1")} == described(store)
    assert ({}, 1) == (family(store, EXPIRY_CF), machine.read(b"DBSIZE", []))


def test_msetnx_is_all_or_nothing() -> None:
    """One key that is there keeps every other one out of the store."""
    store = new_store()

    assert 0 == send(open_machine(store), "SET k 1", "MSETNX a 1 k 2 b 3")[1]
    assert [KEY] == list(stored(store, Kind.METADATA))
