"""The layout camellia-v1: blind writes, and keys that have lost their last element."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.cleaning.all import clean_all
from engine.conversion import convert
from engine.errors import CommandError
from engine.layouts import make_layout
from engine.layouts.layout import Kind
from engine.layouts.records import column_families
from engine.model import HASH, SET, TYPE_NAMES
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import Get, Store
from engine.tables.system import Home
from slotlog.shared.errors import InvariantError
from tests.consistency import problems
from tests.engine.harness import (
    FINGERPRINT,
    NOW_MS,
    WatchedStore,
    apply,
    event,
    family,
    new_store,
    open_machine,
    records_of,
    send,
    shape,
)
from tests.engine.stored import key_of, subkeys_of, written

pytestmark = pytest.mark.layout("camellia-v1")

EMPTYING = [
    ["HSET k a 1 b 2", "HDEL k b a"],
    ["SADD k a b", "SREM k a", "SREM k b"],
    ["SADD k a", "SPOP k"],
    ["SADD k a", "SMOVE k t a", "DEL t"],
    ["HSET k a 1", "HGETDEL k FIELDS 1 a"],
]
BLIND = {b"HSET", b"HDEL", b"SADD", b"SREM"}
COUNTING = {b"DBSIZE"}
COMMANDS = [
    *("HSET k F V", "HSET k F V F V", "HMSET k F V", "HDEL k F", "HDEL k F F", "HSETNX k F V", "HINCRBY k F 3"),
    *("HGET k F", "HMGET k F F", "HGETALL k", "HLEN k", "HKEYS k", "HVALS k", "HEXISTS k F", "HSTRLEN k F"),
    *("HRANDFIELD k 2", "HRANDFIELD k -3 WITHVALUES", "HGETDEL k FIELDS 2 F F", "HINCRBYFLOAT k F 0.5"),
    *("SADD k F", "SADD k F F", "SREM k F", "SREM k F F", "SISMEMBER k F", "SMISMEMBER k F F", "SMEMBERS k"),
    *("SCARD k", "SPOP k", "SPOP k 2", "SRANDMEMBER k 2", "SRANDMEMBER k -2", "SMOVE k k F", "SUNION k k"),
    *("SINTER k k", "SDIFF k k", "SINTERCARD 2 k k", "SUNIONSTORE k k k", "SINTERSTORE k k k", "SDIFFSTORE k k k"),
    *("ZADD k 1 F", "ZUNIONSTORE k 2 k k", "ZREM k F", "SET k V", "SETNX k V", "GET k", "APPEND k V", "LPUSH k V"),
    *("DEL k", "EXISTS k k", "TYPE k", "RENAME k k", "RENAMENX k k", "COPY k k", "COPY k k REPLACE", "DBSIZE"),
    *("SORT k ALPHA", "SORT k ALPHA LIMIT 1 2", "DUMP k", "TTL k", "MSETNX k V k V", "GETSET k V"),
]


class AskedStore(WatchedStore):
    """A store that notes the keys of which somebody wanted the value."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bytes] = []

    def getter(self, column_family: str) -> Get:
        """Look up and note."""
        get = super().getter(column_family)

        def noting(key: bytes) -> bytes | None:
            self.asked.append(key)
            return get(key)

        return noting

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Scan and note the start."""
        self.asked.append(start)
        return super().scan(column_family, start, end, reverse=reverse)


def of_subkeys(asked: list[bytes]) -> list[bytes]:
    """Those of them that are of elements."""
    return [key for key in asked if key.startswith(b"s#")]


def digest_of(store: Store, layout: str) -> str:
    """The digest of a state in memory."""
    return str(digest(store, make_layout(layout, 0, 1), NOW_MS))


@pytest.mark.parametrize(
    ("made", "command", "reply"),
    [
        ("HSET k f 1", "HSET k f 2", 1),
        ("HSET k f 1", "HSET k f 2 f 3 g 4", 3),
        ("HSET k f 1", "HMSET k f 2", b"OK"),
        ("HSET k f 1", "HDEL k f none", 2),
        ("SADD k a", "SADD k a b", 2),
        ("SADD k a", "SREM k a none", 2),
    ],
)
def test_a_blind_write_reads_no_element(made: str, command: str, reply: Any) -> None:
    """It looks at the metadata alone, replies as if all were new or there, and writes no metadata."""
    store = AskedStore()
    send(open_machine(store), made)
    machine = open_machine(store)
    store.asked.clear()
    store.batches.clear()
    apply(machine, event(machine.next_offset, command))
    asked = of_subkeys(store.asked)
    machine.commit(None)

    assert [] == asked
    assert {} == written(store.batches[0], Kind.METADATA)
    assert [reply] == [shape_of(each) for each in send(machine, command)]


def shape_of(reply: Any) -> Any:
    """A reply as plain as it is written in these tests."""
    return reply.text if hasattr(reply, "text") else reply


def test_the_metadata_is_written_when_it_changes() -> None:
    """With the key, with its time to live, and with the key that takes its place."""
    store = WatchedStore()
    machine = open_machine(store)
    commands = ["HSET k f 1", "HSET k g 1", "PEXPIRE k 5000", "HSET k h 1", "PERSIST k", "HDEL k f", "DEL k"]
    commands.append("SADD k a")
    send(machine, "TICK")
    store.batches.clear()
    for command in commands:
        send(machine, command)

    changed = [bool(written(batch, Kind.METADATA)) for batch in store.batches]
    assert [True, False, True, False, True, False, True, True] == changed
    assert [] == problems(store)


@pytest.mark.parametrize("commands", EMPTYING, ids=lambda commands: commands[-1])
def test_nobody_finds_a_key_without_elements(commands: list[str]) -> None:
    """To whoever reads it is absent, in the batch that emptied it, in the next one and after an open."""
    reads = [(name, [b"k"]) for name in b"EXISTS TYPE TTL HLEN SCARD DUMP OBJECT|ENCODING SRANDMEMBER".split()]
    reads += [(b"KEYS", [b"*"]), (b"SCAN", [b"0"]), (b"RANDOMKEY", [])]
    expected = [0, b"none", -2, 0, 0, None, None, None, [], [b"0", []], None]
    store = new_store()
    machine = open_machine(store)
    for command in commands:
        apply(machine, event(machine.next_offset, command))
    for _ in range(2):
        assert expected == [shape_of(machine.read(name, args)) for name, args in reads]
        machine.commit(None)
    machine = open_machine(store)
    assert expected == [shape_of(machine.read(name, args)) for name, args in reads]
    (renamed,) = send(machine, "RENAME k other")
    assert isinstance(renamed, CommandError)
    assert digest_of(new_store(), "camellia-v1") == digest_of(store, "camellia-v1")
    assert 1 == machine.read(b"DBSIZE", [])
    assert [] == problems(store)


@pytest.mark.parametrize("commands", EMPTYING, ids=lambda commands: commands[-1])
def test_any_type_takes_its_place(commands: list[str]) -> None:
    """A key of another type is made anew, and what was left is reclaimed."""
    for command in ("SET k v", "RPUSH k v", "ZADD k 1 v", "SUNIONSTORE k s", "SETNX k v", "HSETNX k f v"):
        store = new_store()
        machine = open_machine(store)
        send(machine, "SADD s v", *commands)
        (replaced,) = send(machine, command)
        assert not isinstance(replaced, CommandError), command
        assert [1, -1] == send(machine, "EXISTS k", "TTL k")
        clean_all(machine, store)
        assert {} == family(store, "graveyard")
        assert [] == problems(store)


def test_a_blind_write_goes_on_with_an_empty_key() -> None:
    """So its time to live is that of before; a command that reads makes the key anew."""
    store = new_store()
    machine = open_machine(store)

    assert [1, 1, 1, 1] == send(machine, "HSET k f 1", "PEXPIRE k 5000", "HDEL k f", "HSET k g 1")
    assert [5000] == send(machine, "PTTL k")
    assert [1, 1, -1] == send(machine, "HDEL k g", "HSETNX k g 1", "PTTL k")
    assert {b"g": b"1"} == subkeys_of(store, b"k")


def test_an_empty_key_dies_when_its_time_has_come() -> None:
    """A sweep takes it, and DBSIZE does not count it any more."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SADD k a", "PEXPIRE k 5", "SREM k a")
    send(machine, "TICK", at_ms=NOW_MS + 5)
    clean_all(machine, store)

    assert 0 == machine.read(b"DBSIZE", [])
    assert key_of(b"k") not in family(store, "camellia")
    assert {} == family(store, "graveyard")


@pytest.mark.parametrize("type_code", [HASH, SET])
def test_a_collection_that_has_no_version_is_not_written(type_code: int) -> None:
    """The guards say so as on every layout, and nothing else does first."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, "SET k v")
    before = records_of(store)
    apply(machine, event(machine.next_offset, "SET other v"))
    machine._tx.begin(machine.next_offset, NOW_MS, 0)
    key = machine._tx.find(b"k")
    assert key is not None
    key.changed, key.type = True, type_code

    with pytest.raises(InvariantError, match=rf"^a {TYPE_NAMES[type_code]} has no version$"):
        machine.commit(FINGERPRINT)
    assert before == records_of(store)


def test_a_watch_is_lost_by_a_blind_write() -> None:
    """HDEL of a field that was not there counts as a change, too; HGETDEL, which looks, does not."""
    assert [[0], [1]] == [done_after(name, args) for name, args in BESIDE]


BESIDE: list[tuple[bytes, list[bytes]]] = [
    (b"HDEL", [b"k", b"none"]),
    (b"HGETDEL", [b"k", b"FIELDS", b"2", b"none", b"other"]),
]


def done_after(name: bytes, args: list[bytes]) -> list[Any]:
    """Whether a transaction is done when this command came between its WATCH and its EXEC."""
    machine = open_machine(new_store())
    send(machine, "HSET k f 1")
    session = b"s" * 16
    offset = machine.next_offset
    records: list[Any] = [
        (offset, NOW_MS, b"WATCH", [b"k"], 0, None, session),
        (offset + 1, NOW_MS, name, args, 0, None, None),
        (offset + 2, NOW_MS, b"EXEC", [[b"SET", b"done", b"1"]], 0, None, session),
    ]
    apply(machine, *records)
    machine.commit(None)
    return send(machine, "EXISTS done")


@pytest.mark.parametrize("seed", range(4))
def test_all_else_is_as_with_counts(seed: int) -> None:
    """Random commands on both layouts: the same replies but of blind writes, the same contents at each step."""
    random = Random(seed)
    places = {"k": ["a", "b", "c"], "F": ["f", "g", "h", ""], "V": ["1", "v", "x" * 70]}
    stores = {name: MemoryStore(column_families(make_layout(name, 0, 1))) for name in ("camellia-v0", "camellia-v1")}
    machines = [Machine(store, Home("topic", 0, 1, name), verify=True) for name, store in stores.items()]
    for _ in range(1500):
        words = random.choice(COMMANDS).split(" ")
        line = " ".join(random.choice(places[word]) if word in places else word for word in words)
        exact, blind = ([shape(each) for each in send(machine, line)] for machine in machines)
        if line.split(" ")[0].encode() not in BLIND | COUNTING:
            assert exact == blind, line
    digests = {digest_of(store, name) for name, store in stores.items()}

    assert 1 == len(digests)
    assert [] == problems(stores["camellia-v1"])


def test_a_conversion_leaves_empty_keys_behind() -> None:
    """Another layout counts what is there; the digest is the same."""
    source, target = new_store(), MemoryStore(column_families(make_layout("neokv", 0, 1)))
    machine = open_machine(source)
    send(machine, "HSET h f 1 g 2 f 3", "SADD k a", "SREM k a", "SADD s a b a", "SREM s b", "SET t v")
    convert(source, machine.layout, machine.position, target, Home("topic", 0, 1, "neokv"))
    converted = Machine(target, Home("topic", 0, 1, "neokv"))

    assert digest_of(source, "camellia-v1") == digest_of(target, "neokv")
    assert [4, 3] == [each.read(b"DBSIZE", []) for each in (machine, converted)]
    assert [2, 1] == [converted.read(name, [key]) for name, key in ((b"HLEN", b"h"), (b"SCARD", b"s"))]


@pytest.mark.parametrize("layout", ["neokv", "camellia-v1"])
def test_a_conversion_counts_no_empty_keys(layout: str) -> None:
    """Also where all keys of a type are empty, the new state counts what it has."""
    home = Home("topic", 0, 1, layout)
    source, target = new_store(), MemoryStore(column_families(make_layout(layout, 0, 1)))
    machine = open_machine(source)
    send(machine, "SADD k a", "SREM k a", "HSET h f v", "HDEL h f", "SET t v")
    convert(source, machine.layout, machine.position, target, home)

    assert 1 == Machine(target, home).read(b"DBSIZE", [])
    assert [] == list(map(str, Audit(target, home).violations()))
