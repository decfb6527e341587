"""Hashes whose fields have times to live, in the form of Kvrocks: each value begins with its field's time."""

from __future__ import annotations

import pytest

from engine.batch import staging
from engine.cleaning.reclaim import Reclaimer
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.model import HASH, Times
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF
from engine.values.encoding import pack_u64
from engine.values.rdb.content import Content
from engine.values.rdb.encode import encode
from tests.consistency import problems
from tests.engine.harness import NOW_MS, WatchedStore, apply, event, family, new_store, open_machine, records_of, send
from tests.engine.stored import described, key_of, prefix_of, put, stored, subkeys_of
from tests.layouts import layout_of

LAYOUT = layout_of()
DIES_MS = 1_900_000_000_000
NEVER = bytes(8)


def metadata_of(store: MemoryStore, name: bytes) -> str:
    """The metadata value of a hash behind its version, as hex."""
    return stored(store, Kind.METADATA)[key_of(name)][17:].hex()


def test_the_bytes_are_those_of_kvrocks() -> None:
    """A hash of a=1 and b=2, of which b dies: metadata and fields as a Kvrocks with field times has them."""
    store = new_store()
    send(open_machine(store), "HSET h a 1 b 2", f"HPEXPIREAT h {DIES_MS} FIELDS 1 b")
    metadata = stored(store, Kind.METADATA)[key_of(b"h")]

    assert "82" + "00" * 8 == metadata[:9].hex()
    assert "0000000000000002" + "010000000000000001" + "000001ba60d33800" * 2 == metadata_of(store, b"h")
    assert {b"a": NEVER + b"1", b"b": pack_u64(DIES_MS) + b"2"} == subkeys_of(store, b"h")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("HSET h b 3", {b"a": (0, b"1"), b"b": (0, b"3"), b"c": (7000, b"x")}),
        ("HPERSIST h FIELDS 2 b c", {b"a": (0, b"1"), b"b": (0, b"2"), b"c": (0, b"x")}),
        ("HPEXPIRE h 9000 FIELDS 2 a b", {b"a": (9000, b"1"), b"b": (9000, b"2"), b"c": (7000, b"x")}),
        ("HINCRBY h b 5", {b"a": (0, b"1"), b"b": (5000, b"7"), b"c": (7000, b"x")}),
        ("HDEL h b", {b"a": (0, b"1"), b"c": (7000, b"x")}),
        ("HGETEX h PX 1 FIELDS 1 c", {b"a": (0, b"1"), b"b": (5000, b"2"), b"c": (1, b"x")}),
    ],
)
@pytest.mark.parametrize("batches", [1, 2])
def test_a_value_follows_its_fields_time(command: str, expected: dict[bytes, tuple[int, bytes]], batches: int) -> None:
    """Whatever changes a time or a value, in one batch with what came before or in another, leaves both together."""
    store = new_store()
    machine = open_machine(store)
    lines = ["HSET h a 1", "HSETEX h PX 5000 FIELDS 1 b 2", "HSETEX h PX 7000 FIELDS 1 c x"]
    if batches == 1:
        send(machine, *lines, command)
    else:
        send(machine, *lines)
        send(open_machine(store), command)
    fields = {field: pack_u64(NOW_MS + ms if ms else 0) + value for field, (ms, value) in expected.items()}
    dying = [NOW_MS + ms for ms, _ in expected.values() if ms]
    times = Times(len(dying), 0, min(dying, default=0), max(dying, default=0))

    assert fields == subkeys_of(store, b"h")
    assert times == described(store)[key_of(b"h")].times
    assert [] == problems(store)


def test_the_first_time_writes_a_hash_anew() -> None:
    """Under a new version: the old records are those of a dead hash, which go with a reclaim; replies tell nothing."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSET h a 1 b 2", "PEXPIRE h 99999")
    old = described(store)[key_of(b"h")]
    outcomes = send(machine, "HSCAN h 0 COUNT 1", "HEXPIRE h 9 FIELDS 1 b", "HGETALL h", "HLEN h")
    new = described(store)[key_of(b"h")]

    assert [[1], [(b"a", b"1"), (b"b", b"2")], 2] == outcomes[1:]
    assert (old.expire_ms, old.size) == (new.expire_ms, new.size)
    assert old.version < new.version
    assert 4 == len(stored(store, Kind.DATA))
    assert 1 == len(family(store, GRAVEYARD_CF))
    Reclaimer(machine, store).reclaim(9)
    assert {b"a", b"b"} == subkeys_of(store, b"h").keys()
    assert 2 == len(stored(store, Kind.DATA))
    assert [] == problems(store)


def test_a_hash_that_begins_with_a_time_is_written_once() -> None:
    """HSETEX of a new hash, RESTORE and COPY take one version, and leave no grave."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSETEX h PX 5000 FIELDS 1 a 1", "COPY h copy")
    payload = encode(Content(HASH, [b"f", b"v", b"g", b"w"], expires_ms=[0, DIES_MS]))
    apply(machine, (machine.next_offset, NOW_MS, b"RESTORE", [b"restored", b"0", payload], 0, None, None))
    machine.commit(b"mark")

    assert {} == family(store, GRAVEYARD_CF)
    assert {b"f": NEVER + b"v", b"g": pack_u64(DIES_MS) + b"w"} == subkeys_of(store, b"restored")
    assert {b"a": pack_u64(NOW_MS + 5000) + b"1"} == subkeys_of(store, b"copy")
    assert [] == problems(store)


@pytest.mark.parametrize("staged_bytes", [0, 1 << 22])
def test_a_large_hash_is_written_anew_in_parts(monkeypatch: pytest.MonkeyPatch, staged_bytes: int) -> None:
    """Memory holds a part of it at a time; the bytes are the same, also of a copy of it."""
    monkeypatch.setattr(staging, "STAGED_BYTES", staged_bytes)
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "HSET h " + " ".join(f"f{n} v{n}" for n in range(300)))
    before = len(store.batches)
    send(machine, "HPEXPIRE h 5000 FIELDS 2 f1 f2", "COPY h copy")
    expected = {b"f%d" % n: (pack_u64(NOW_MS + 5000) if n in {1, 2} else NEVER) + b"v%d" % n for n in range(300)}

    assert (len(store.batches) - before > 100) == (staged_bytes == 0)
    assert expected == subkeys_of(store, b"h") == subkeys_of(store, b"copy")
    assert [] == problems(store)


def test_the_bytes_do_not_depend_on_batches() -> None:
    """A batch for each command, or one for all: the same records, those of dead versions included."""
    commands = ["HSET h a 1 b 2", "HEXPIRE h 9 FIELDS 1 a", "HSET h c 3", "HPERSIST h FIELDS 1 a", "COPY h g"]
    commands += ["HEXPIRE g 9 FIELDS 3 a b c", "PEXPIRE g 99", "HDEL h a b c", "HSET h a 1", "HEXPIRE h 9 FIELDS 1 a"]
    stores = [new_store(), new_store()]
    send(open_machine(stores[0]), *commands)
    for command in commands:
        send(open_machine(stores[1]), command)
    parts = [[record for record in records_of(store) if record[0] != "dedup"] for store in stores]

    assert parts[0] == parts[1]
    assert digest(stores[0], LAYOUT, NOW_MS) == digest(stores[1], LAYOUT, NOW_MS)


def test_a_hash_dies_with_its_last_field() -> None:
    """Its metadata has its own time alone; when all fields die, the latest of their times says when it does."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "HSETEX h PX 50 FIELDS 2 a 1 b 2", "HPEXPIRE h 70 FIELDS 1 b", "PEXPIRE h 5000")

    assert NOW_MS + 70 == described(store)[key_of(b"h")].expire_ms
    assert pack_u64(NOW_MS + 5000) == stored(store, Kind.METADATA)[key_of(b"h")][1:9]
    assert pack_u64(NOW_MS + 50) + key_of(b"h") in family(store, EXPIRY_CF)
    apply(machine, event(machine.next_offset, "TICK", at_ms=NOW_MS + 70))
    assert [0] == send(machine, "EXISTS h", at_ms=NOW_MS + 70)


@pytest.mark.damaging
def test_a_value_without_a_time_is_damage() -> None:
    """Too few bytes for a time are named, and so is a hash with more fields that never die than fields."""
    store = new_store()
    send(open_machine(store), "HSETEX h PX 50 FIELDS 1 a 1")
    found = described(store)[key_of(b"h")]
    put(store, Kind.DATA, (prefix_of(b"h", found.version) + b"a", b"short"))
    with pytest.raises(CorruptionError, match="has 5 bytes: too few for a time"):
        send(open_machine(store), "HGET h a")
    value = stored(store, Kind.METADATA)[key_of(b"h")]
    with pytest.raises(CorruptionError, match="a hash of 1 fields, of which 2 never die"):
        LAYOUT.parse_metadata(value[:26] + pack_u64(2) + value[34:])
