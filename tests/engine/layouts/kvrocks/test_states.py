"""States with records that Kvrocks wrote and this layout never writes; and where databases are."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts.kvrocks.layout import database_of, namespace_of
from engine.layouts.layout import Kind
from engine.model import HASH, LIST, SET, STRING, ZSET, Metadata
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import SYSTEM_CF
from engine.values.encoding import pack_u64
from engine.values.replies import OK
from tests.consistency import problems
from tests.engine.harness import HOME, NOW_MS, new_store, open_machine, send, shape
from tests.engine.stored import described, key_of, put, stored
from tests.layouts import layout_of

LAYOUT = layout_of()
STATE = ["SET s 1", "SET dying 1 PX 5000", "HSET h f v g w", "RPUSH l a b", "SADD e m", "ZADD z 1 m"]


def lived() -> MemoryStore:
    """A state with every type."""
    store = new_store()
    send(open_machine(store), *STATE)
    return store


def narrow(value: bytes) -> bytes:
    """What Kvrocks wrote for the same metadata before it had 64-bit fields."""
    seconds = (int.from_bytes(value[1:9]) // 1000).to_bytes(4)
    head = bytes((value[0] & 0x7F,)) + seconds
    return head + value[9:] if value[0] & 15 == STRING else head + value[9:17] + value[21:25] + value[25:]


def narrow_store() -> MemoryStore:
    """The same state, with all metadata narrow."""
    store = lived()
    put(store, Kind.METADATA, *((key, narrow(value)) for key, value in stored(store, Kind.METADATA).items()))
    return store


READS = ["GET s", "PTTL dying", "HGETALL h", "HLEN h", "LRANGE l 0 -1", "SMEMBERS e", "ZRANGE z 0 -1 WITHSCORES"]
READS += ["DBSIZE", "KEYS *", "SCAN 0 COUNT 99", "TYPE l", "EXISTS s h l e z", "RANDOMKEY"]


def ask(machine: Machine, *commands: str) -> list[object]:
    """The replies to commands that change nothing."""
    asked = [command.encode().split() for command in commands]
    return [shape(machine.read(name, args)) for name, *args in asked]


def test_narrow_values_are_read() -> None:
    """Every command and the digest find in them what was in the wide ones."""
    store = narrow_store()

    assert described(lived()) == described(store)
    assert ask(open_machine(lived()), *READS[:-1]) == ask(open_machine(store), *READS[:-1])
    assert digest(lived(), LAYOUT, NOW_MS) == digest(store, LAYOUT, NOW_MS)
    assert [] == problems(store)


def test_a_write_makes_a_narrow_value_wide() -> None:
    """Whatever changes a key leaves 64-bit fields behind; what only looks at it does not."""
    store = narrow_store()
    machine = open_machine(store)
    ask(machine, *READS)
    assert {0} == {value[0] & 0x80 for value in stored(store, Kind.METADATA).values()}
    send(machine, "APPEND s 2", "PERSIST dying", "HSET h i x", "RPUSH l c", "SADD e n", "ZADD z 2 n")

    assert {0x80} == {value[0] & 0x80 for value in stored(store, Kind.METADATA).values()}
    assert [b"12", 3, 3, 2, 2] == send(machine, "GET s", "HLEN h", "LLEN l", "SCARD e", "ZCARD z")
    assert [] == problems(store)


# ---------------------------------------------------------------------- records of no key

EMPTY = [Metadata(type_code, 0, 7, 0) for type_code in (HASH, LIST, SET, ZSET)]


def emptied_store(left: Metadata) -> MemoryStore:
    """The state, and a record of size 0, which no count knows."""
    store = lived()
    put(store, Kind.METADATA, (key_of(b"empty"), LAYOUT.pack_metadata(left)))
    return store


@pytest.mark.parametrize("left", EMPTY, ids=str)
def test_a_record_of_size_0_is_no_key(left: Metadata) -> None:
    """EXISTS, TYPE, SCAN, KEYS, DBSIZE, RANDOMKEY, the digest and the audit are as without it."""
    store = emptied_store(left)
    machine = open_machine(store)

    assert ask(open_machine(lived()), *READS[:-1]) == ask(machine, *READS[:-1])
    assert shape(b"empty") not in [ask(machine, "RANDOMKEY")[0] for _ in range(50)]
    assert [0, 0, 0] == send(machine, "EXISTS empty", "DEL empty", "LPUSHX empty a")
    assert digest(lived(), LAYOUT, NOW_MS) == digest(store, LAYOUT, NOW_MS)
    assert [] == problems(store)


@pytest.mark.parametrize("left", EMPTY, ids=str)
@pytest.mark.parametrize("write", ["SET empty 1", "HSET empty f v", "RPUSH empty a", "SADD empty m", "ZADD empty 1 m"])
def test_a_record_of_size_0_gives_way(left: Metadata, write: str) -> None:
    """Any type may take its name, with a new version; it is counted once and goes as any other key."""
    store = emptied_store(left)
    machine = open_machine(store)

    send(machine, write)
    assert ("int", "7") == ask(machine, "DBSIZE")[0]
    assert [] == problems(store)
    assert 7 != described(store)[key_of(b"empty")].version
    assert [1, 0] == send(machine, "DEL empty", "EXISTS empty")
    assert ("int", "6") == ask(machine, "DBSIZE")[0]
    assert key_of(b"empty") not in stored(store, Kind.METADATA)
    assert [] == problems(store)


def test_the_last_element_takes_the_record_along() -> None:
    """This engine leaves no record of size 0 behind."""
    store = lived()
    send(open_machine(store), "HDEL h f g", "LPOP l 2", "SREM e m", "ZREM z m")

    assert {key_of(b"s"), key_of(b"dying")} == stored(store, Kind.METADATA).keys()


# ---------------------------------------------------------------------- versions and types of others


def test_a_version_of_kvrocks_is_below_the_next_one() -> None:
    """Above the log's clock it is when Kvrocks' clock was ahead: with `last_version` said, no version comes twice."""
    store, ahead = lived(), (NOW_MS + 10_000_000) * 1000 << 11
    old = described(store)[key_of(b"h")]
    moved = {
        LAYOUT.prefix(Kind.DATA, key_of(b"h"), ahead) + field: value for field, value in ((b"f", b"v"), (b"g", b"w"))
    }
    gone = LAYOUT.prefix(Kind.DATA, key_of(b"h"), old.version)
    put(store, Kind.METADATA, (key_of(b"h"), LAYOUT.pack_metadata(old._replace(version=ahead))))
    put(store, Kind.DATA, *moved.items(), (gone + b"f", None), (gone + b"g", None))
    put(store, SYSTEM_CF, (b"last_version", pack_u64(ahead)))
    machine = open_machine(store)

    assert [1, 1, 3] == send(machine, "HSET h i x", "SADD new m", "HLEN h")
    assert ahead + 1 == described(store)[key_of(b"new")].version
    assert [1, 1] == send(machine, "DEL h", "HSET h f v")
    assert ahead + 2 == described(store)[key_of(b"h")].version
    assert [] == problems(store)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\x86" + bytes(16) + pack_u64(9), "metadata value of a bitmap"),
        (b"\x8b" + bytes(24) + b"\0", "metadata value of a HyperLogLog"),
        (b"\x8a" + bytes(8) + b"\0{}", "metadata value of a JSON"),
        (b"\x82" + bytes(23), "is not of the kvrocks layout"),
    ],
)
@pytest.mark.damaging
def test_what_no_key_of_a_state_is_is_damage(value: bytes, said: str) -> None:
    """Types of Kvrocks that Redis does not have, or has as strings, come by an import and not by their bytes."""
    store = lived()
    put(store, Kind.METADATA, (key_of(b"x"), value))

    with pytest.raises(CorruptionError, match=said):
        send(open_machine(store), "GET x")


# ---------------------------------------------------------------------- databases


def test_a_database_is_a_namespace() -> None:
    """The first is Kvrocks' default one, and each other one has its number behind `db`."""
    assert [b"__namespace", b"db1", b"db15"] == [namespace_of(db) for db in (0, 1, 15)]
    assert [0, 1, 15] == [database_of(namespace) for namespace in (b"__namespace", b"db1", b"db15")]
    assert {None} == {database_of(namespace) for namespace in (b"", b"db", b"db0", b"db01", b"db-1", b"other", b"xdb1")}


def test_databases_are_swapped_without_their_records() -> None:
    """SWAPDB moves no record: the namespace is that of the number under which a database is stored."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET k 0")
    send(machine, "SET k 3", db=3)
    before = stored(store, Kind.METADATA)

    assert [OK, b"3"] == send(machine, "SWAPDB 0 3", "GET k")
    assert before == stored(store, Kind.METADATA)
    assert HOME.layout == LAYOUT.name


@pytest.mark.damaging
def test_a_namespace_that_is_no_database_is_damage() -> None:
    """Other tenants of a Kvrocks have no place in a state."""
    with pytest.raises(CorruptionError, match="in the namespace b'tenant', which is no database"):
        LAYOUT.parse_metadata_key(b"\x06tenant\0\0key")


@pytest.mark.parametrize("key", [b"", b"\x0b__namesp"])
def test_a_key_that_is_cut_short_is_damage(key: bytes) -> None:
    """It is named, never guessed at."""
    with pytest.raises(CorruptionError, match="is too short"):
        LAYOUT.parse_metadata_key(key)
    with pytest.raises(CorruptionError, match="is too short"):
        LAYOUT.owner(Kind.DATA, key)
