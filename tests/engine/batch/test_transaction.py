"""A batch writes expiry entries, graves and counts beside the data; FLUSHDB leaves few of them."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.layouts.records import all_records
from engine.model import HASH, ZSET
from engine.store.memory import MemoryStore
from engine.tables.graveyard import Grave, pack_grave, parse_grave
from engine.values.encoding import pack_u64
from tests.consistency import problems
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, family, new_store, open_machine, records_of, send
from tests.engine.stored import key_of, prefix_of, stored
from tests.layouts import layout_of, member_kind
from tests.layouts.differences import count_of

LAYOUT = layout_of()


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.fixture
def machine(store: MemoryStore) -> Machine:
    """The machine of `store`."""
    return open_machine(store)


def expiries(store: MemoryStore) -> list[tuple[int, bytes]]:
    """The expiry index: time after `NOW_MS` and metadata key."""
    return [(int.from_bytes(key[:8], "big") - NOW_MS, key[8:]) for key in family(store, "expiry")]


def graves(store: MemoryStore) -> list[Grave]:
    """The graveyard."""
    return [parse_grave(key, value) for key, value in family(store, "graveyard").items()]


# ------------------------------------------------------------------------------------------------------------ expiry


def test_one_expiry_entry_per_key_with_a_time_to_live(store: MemoryStore, machine: Machine) -> None:
    """However often a time to live changes, in one batch or several, the index has the last one alone."""
    send(machine, "SET a 1 PX 100", "PEXPIRE a 200", "PEXPIRE a 300")
    assert [(300, key_of(b"a"))] == expiries(store)
    send(machine, "PEXPIRE a 400")
    send(machine, "PEXPIRE a 500", "HSET h f v", "PEXPIRE h 50")
    assert [(50, key_of(b"h")), (500, key_of(b"a"))] == expiries(store)
    assert {b""} == set(family(store, "expiry").values())


@pytest.mark.parametrize("line", ["PERSIST a", "SET a 2", "DEL a", "GETDEL a", "GETEX a PERSIST", "EXPIRE a -1"])
@pytest.mark.parametrize("together", [True, False])
def test_the_entry_goes_with_the_time_to_live(
    store: MemoryStore,
    machine: Machine,
    line: str,
    together: bool,
) -> None:
    """What takes a key's time to live, or the key, takes its entry along, in the same batch or a later one."""
    if together:
        send(machine, "SET a 1 PX 100", line)
    else:
        send(machine, "SET a 1 PX 100")
        send(machine, line)

    assert [] == expiries(store)


def test_a_due_key_keeps_its_entry_until_it_is_cleaned(store: MemoryStore, machine: Machine) -> None:
    """A due key is dead to every command, yet its record and entry stay for the cleaner, or until it is replaced."""
    send(machine, "SET a 1 PX 100", "HSET h f v", "PEXPIRE h 100")
    reply = send(machine, "GET a", "HGETALL h", "DEL a h", "TYPE h", at_ms=NOW_MS + 100)

    assert [None, [], 0, b"none"] == reply
    assert {key_of(b"a"), key_of(b"h")} == {key for _, key in expiries(store)} == set(stored(store, Kind.METADATA))
    send(machine, "HSET a f v", "SET h 1", at_ms=NOW_MS + 100)
    assert [] == expiries(store)
    assert [HASH] == [grave.type for grave in graves(store)]


# --------------------------------------------------------------------------------------------------------- graveyard


@pytest.mark.parametrize("line", ["DEL h", "SET h 1", "UNLINK h", "EXPIRE h -1", "MSET h 1"])
@pytest.mark.parametrize("together", [True, False])
def test_a_dead_collection_has_a_grave(
    store: MemoryStore,
    machine: Machine,
    line: str,
    together: bool,
) -> None:
    """Deleted or overwritten, a collection leaves its subkeys and one entry that names them; no subkey is touched."""
    first = ["HSET h f v g w i x", "HDEL h g"]
    if together:
        send(machine, *first, line, at_ms=NOW_MS)
    else:
        send(machine, *first)
        send(machine, line)
    version = NOW_MS * 1000 << 11

    assert [Grave(NOW_MS, version, HASH, count_of(2), key_of(b"h"))] == graves(store)
    prefix = prefix_of(b"h", version)
    assert {prefix + b"f": b"v", prefix + b"i": b"x"} == stored(store, Kind.DATA)


@pytest.mark.parametrize("emptying", ["ZREM z m,LPOP l", pytest.param("HDEL h f,SREM s x", marks=pytest.mark.exact)])
def test_an_emptied_collection_has_no_grave(store: MemoryStore, machine: Machine, emptying: str) -> None:
    """A collection that lost its last element leaves nothing behind: no orphan, no grave, no record."""
    filling = [
        line for line in ("HSET h f v", "SADD s x", "ZADD z 1 m", "RPUSH l x") if f" {line[5]} " in emptying + " "
    ]
    send(machine, *filling)
    send(machine, *emptying.split(","))
    send(machine, *filling, *emptying.split(","))

    assert {"system"} == {name for name, _, _ in records_of(store)}


def test_a_sorted_set_is_buried_with_its_index(store: MemoryStore, machine: Machine) -> None:
    """Members and index of a deleted sorted set stay as orphans under one grave."""
    send(machine, "ZADD z 1 a 2 b", "DEL z")

    assert [(ZSET, 2)] == [(grave.type, grave.size) for grave in graves(store)]
    assert (2, 2) == (len(stored(store, member_kind())), len(stored(store, Kind.SCORES)))
    assert [] == problems(store)


def test_a_new_collection_does_not_see_the_old_one(store: MemoryStore, machine: Machine) -> None:
    """A key that comes into being again has a newer version: what the old one left is out of its sight."""
    for batch in (["HSET h f v", "DEL h", "HSET h g w"], ["DEL h"], ["HSET h i x"]):
        send(machine, *batch)

    assert [(b"i", b"x")] == machine.read(b"HGETALL", [b"h"])
    versions = [grave.version for grave in graves(store)]
    assert sorted(set(versions)) == versions
    assert 2 == len(versions)


def test_a_damaged_grave_is_corrupt() -> None:
    """A graveyard entry of another length is named, whether its key or its content is cut."""
    grave = Grave(NOW_MS, 7, HASH, 3, key_of(b"h"))
    record, content = pack_grave(grave)

    assert grave == parse_grave(record, content)
    for cut in ((record[:-1], content), (record + b"x", content), (record, content[:8])):
        with pytest.raises(CorruptionError, match=r"graveyard entry [0-9a-f]+ cannot be read"):
            parse_grave(*cut)


# ---------------------------------------------------------------------------------------------------- counts, flushes


def test_counts_follow_every_kind_of_change(machine: Machine) -> None:
    """Keys are counted by database and type through creation, overwriting, retyping and deletion."""
    send(machine, "SET a 1", "SET a 2", "HSET h f v", "HSET h g v", "ZADD z 1 m")
    send(machine, "SET b 1", db=5)
    assert {(0, 1): 1, (0, 2): 1, (0, 5): 1, (5, 1): 1} == machine.key_counts
    send(machine, "SET h 1", "DEL a z nothing", "RPUSH a x")
    assert {(0, 1): 1, (0, 2): 0, (0, 3): 1, (0, 5): 0, (5, 1): 1} == machine.key_counts
    assert [2, 1, 0] == [machine.read(b"DBSIZE", [], db) for db in (0, 5, 9)]


def fill(machine: Machine) -> None:
    """Keys of all kinds in databases 0, 1 and 15."""
    for db in (0, 1, 15):
        send(
            machine,
            "SET a 1 PX 100",
            "HSET h f v",
            "PEXPIRE h 200",
            "ZADD z 1 m",
            "RPUSH l x",
            "HSET g f v",
            "DEL g",
            db=db,
        )


def databases(store: MemoryStore, kind: Kind) -> list[int]:
    """Which databases have records of a kind."""
    return [db for db in range(16) if list(all_records(LAYOUT, kind, db).scan(store))]


def test_flushdb_takes_one_database(store: MemoryStore, machine: Machine) -> None:
    """FLUSHDB removes data, orphans, score index and expiry entries of its database and of no other."""
    fill(machine)
    send(machine, "FLUSHDB", db=1)

    for kind in (Kind.METADATA, Kind.DATA, Kind.SCORES):
        assert [0, 15] == databases(store, kind)
    assert {0, 15} == {LAYOUT.parse_metadata_key(key)[0] for _, key in expiries(store)}
    assert [4, 0, 4] == [machine.read(b"DBSIZE", [], db) for db in (0, 1, 15)]
    assert [] == problems(store)


def test_flushall_takes_all_databases(store: MemoryStore, machine: Machine) -> None:
    """FLUSHALL leaves no data in any database; graves stay, for the reclaimer to find nothing under them."""
    fill(machine)
    send(machine, "FLUSHALL", db=3)

    assert {"system", "graveyard"} == {name for name, _, _ in records_of(store)}
    assert [0, 0, 0] == [machine.read(b"DBSIZE", [], db) for db in (0, 1, 15)]


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL"])
def test_a_flush_in_the_middle_of_a_batch(store: MemoryStore, machine: Machine, flush: str) -> None:
    """Before it all is gone, stored or not; after it all is there, under the same names and times to live."""
    fill(machine)
    before = [event(100, "SET new 1 PX 7", db=1), event(101, "HSET h x y", db=1), event(102, "SET new 1")]
    after = [
        event(104, "SET a 2 PX 100", db=1),
        event(105, "HSET h f2 v", db=1),
        event(106, "PEXPIRE h 200", db=1),
        event(107, "ZADD z 2 m2", db=1),
        event(108, "EXISTS new l", db=1),
    ]
    applied = apply(machine, *before, event(103, flush, db=1), *after)
    machine.commit(FINGERPRINT)

    assert 0 == applied.outcomes[108]
    assert [(b"f2", b"v")] == machine.read(b"HGETALL", [b"h"], 1)
    assert [b"m2"] == machine.read(b"ZRANGE", [b"z", b"0", b"-1"], 1)
    assert 3 == machine.read(b"DBSIZE", [], 1)
    assert (0 if flush == "FLUSHALL" else 5) == machine.read(b"DBSIZE", [], 0)
    assert [] == problems(store)
    assert pack_u64(NOW_MS + 100) + key_of(b"a", 1) in family(store, "expiry")


def test_a_refused_flush_changes_nothing(store: MemoryStore, machine: Machine) -> None:
    """FLUSHDB with a word that it does not know is a rejection."""
    fill(machine)
    before = stored(store, Kind.METADATA)
    errors = send(machine, "FLUSHDB NOW", "FLUSHALL SYNC ASYNC", "FLUSHALL x")

    assert ["ERR syntax error"] * 3 == [error.message for error in errors]
    assert before == stored(store, Kind.METADATA)
