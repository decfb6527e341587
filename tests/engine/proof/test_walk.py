"""Walks over a state: raw records in order, live keys with their content, in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from engine.layouts.layout import Form, Kind
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.walk import live_keys, raw_records
from engine.store.rocks import RocksStore
from engine.store.store import Changes, Store
from engine.values.encoding import pack_score
from tests.engine.harness import FAMILIES, NOW_MS, new_store, open_machine, send
from tests.layouts import layout_of

LAYOUT = layout_of()
METADATA, DATA, SCORES, *_ = Kind


def contents(store: Store, now_ms: int) -> list[tuple[int, bytes, int, int, list[bytes]]]:
    """The live keys, their content collected."""
    return [(*key[:4], list(key.content)) for key in live_keys(store, LAYOUT, now_ms)]


def test_raw_records_come_by_column_family_and_key() -> None:
    """The raw walk is in order of column family, then key, and leaves out what belongs to this machine alone."""
    store = new_store()
    send(open_machine(store), "SET a 1 PX 9", "HSET h f v", "ZADD z 1 m", "DEL h")
    changes = Changes()
    changes.of("local")[b"cursor/expiry"] = bytes(8)
    store.write(changes)
    records = list(raw_records(store, LAYOUT))

    assert sorted(records) == records
    assert {*(LAYOUT.families[kind] for kind in (METADATA, DATA, SCORES)), "expiry", "graveyard", "system"} == {
        name for name, _, _ in records
    }


def test_each_type_has_its_content() -> None:
    """Content comes flat, in canonical order: fields and members by their bytes, elements as they stand."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET s hello", "HSET h z 1 a 2", "RPUSH l y x", "LPUSH l z", "SADD m b a", "ZADD r 2 a -1 b")
    send(machine, "SET s other PX 100", db=7)

    assert {
        (0, b"s", STRING, 0, (b"hello",)),
        (0, b"h", HASH, 0, (b"a", b"2", b"z", b"1")),
        (0, b"l", LIST, 0, (b"z", b"y", b"x")),
        (0, b"m", SET, 0, (b"a", b"b")),
        (0, b"r", ZSET, 0, (b"a", pack_score(2.0), b"b", pack_score(-1.0))),
        (7, b"s", STRING, NOW_MS + 100, (b"other",)),
    } == {(*key[:4], tuple(key[4])) for key in contents(store, NOW_MS)}


def test_due_keys_and_orphans_are_passed_by() -> None:
    """A key is alive until its last millisecond; what died or was replaced is not walked."""
    store = new_store()
    send(
        open_machine(store), "SET a 1 PX 100", "HSET h f v", "DEL h", "HSET h g w", "HDEL h g", "RPUSH l a b", "LPOP l"
    )

    assert {b"l", b"a"} == {key[1] for key in contents(store, NOW_MS + 99)}
    assert [(0, b"l", LIST, 0, [b"b"])] == contents(store, NOW_MS + 100)


@pytest.mark.form(Form.FIELD_TIMES)
def test_fields_live_until_they_die() -> None:
    """A field is alive until its last millisecond; those with a time to live are told beside the content."""
    store = new_store()
    send(
        open_machine(store),
        "HSET h a 1 b 2 c 3",
        "HPEXPIRE h 9 FIELDS 2 a c",
        "HPEXPIRE h 8 FIELDS 1 c",
        "PEXPIRE h 50",
    )
    keys = [
        (key.expire_ms, list(key.content), list(key.field_times))
        for now_ms in (NOW_MS + 7, NOW_MS + 8, NOW_MS + 9)
        for key in live_keys(store, LAYOUT, now_ms)
    ]
    a, b, c = ([b"a", b"1"], [b"b", b"2"], [b"c", b"3"])

    assert [
        (NOW_MS + 50, [*a, *b, *c], [(b"a", NOW_MS + 9), (b"c", NOW_MS + 8)]),
        (NOW_MS + 50, [*a, *b], [(b"a", NOW_MS + 9)]),
        (NOW_MS + 50, b, []),
    ] == keys


def test_content_may_be_walked_late() -> None:
    """The content of a key can be taken after later keys were asked for, and need not be taken at all."""
    store = new_store()
    send(open_machine(store), "HSET h f v", "RPUSH l a b", "SET s 1")
    keys = list(live_keys(store, LAYOUT, NOW_MS))

    assert {b"h": [b"f", b"v"], b"l": [b"a", b"b"], b"s": [b"1"]} == {key.name: list(key.content) for key in keys}


def test_a_large_collection_streams(tmp_path: Path) -> None:
    """A hash of many fields passes through without being collected."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    machine = open_machine(store)
    fields = 20_000
    pairs = [b"%08d" % (n // 2) for n in range(2 * fields)]
    machine.apply([(0, NOW_MS, b"HSET", [b"h", *pairs], 0, None, None)], 0)
    machine.commit(b"x")
    tracemalloc.start()
    count = sum(1 for key in live_keys(store, LAYOUT, NOW_MS) for _ in key.content)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    store.close()

    assert 2 * fields == count
    assert peak_bytes < 200_000
