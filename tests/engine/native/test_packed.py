"""Elements of large collections stay in memory, packed, where the part in C writes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from engine import native
from engine.apply.machine import Machine
from engine.batch.in_memory import families, memory, writing
from engine.batch.in_memory.memory import packed_least
from engine.batch.in_memory.writing import write_keys
from engine.batch.keys.key import Key
from engine.batch.overlaid import KEPT_BYTES_MAX, KEPT_SUBKEYS_MAX
from engine.errors import StoreBusyError
from engine.layouts import DEFAULT_LAYOUT
from engine.store.store import Changes
from tests.engine.harness import FINGERPRINT, HOME, WatchedStore, apply, event, new_store, open_machine, send
from tests.engine.native.twins import CountingStore, machine_of, part_in_c, reader_of, running
from tests.layouts import layout_of

pytestmark = pytest.mark.layout(DEFAULT_LAYOUT)

LONG = "v" * KEPT_BYTES_MAX
FEW = 4


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections of more than four elements are packed."""
    for module in (families, writing):
        monkeypatch.setattr(module, "DICT_SUBKEYS_MAX", FEW)


def machine_in_c(store: CountingStore, key_cache_bytes: int = 1 << 24) -> Machine:
    """A machine on the part in C."""
    with running(natively=True):
        return Machine(store, HOME, key_cache_bytes=key_cache_bytes)


def reads_of(store: CountingStore) -> int:
    """How many elements were read since the last call."""
    found = sum(column_family == "data" for column_family, _ in store.reads)
    store.reads.clear()
    return found


def key_of(machine: Machine, name: bytes) -> Key:
    """A key in memory."""
    return machine._tx._overlay.databases[0][name]


def packed_of(machine: Machine) -> Any:
    """What its tables take."""
    packed = machine._tx._overlay.memory.packed
    assert packed is not None
    return packed


@pytest.mark.parametrize("seed", range(20))
def test_a_table_is_as_a_dict(seed: int) -> None:
    """Whatever is put, put again with another size, and discarded; and nothing is left at its end."""
    random = Random(seed)
    all_tables = part_in_c().PackedMemory(1 << 30)
    table, twin = all_tables.table(), dict[bytes, bytes]()
    for _ in range(random.choice([50, 500, 5000])):
        element = b"%d" % random.randrange(3000) * random.choice([0, 1, 1, 4])
        if random.random() < 0.3:
            table.discard(element)
            twin.pop(element, None)
        else:
            value = b"x" * random.choice([0, 1, 8, 8, 60, KEPT_BYTES_MAX, KEPT_BYTES_MAX + 1])
            table.put(element, value)
            twin.pop(element, None)
            if len(element) + len(value) <= KEPT_BYTES_MAX:
                twin[element] = value
    assert len(twin) == len(table) == all_tables.elements
    assert all(value == table.get(element, b"none") for element, value in twin.items())
    assert b"none" == table.get(b"no such element", b"none")
    assert sum(2 + len(element) + len(value) for element, value in twin.items()) < table.held_bytes
    assert all_tables.held_bytes == table.held_bytes
    del table
    assert (0, 0) == (all_tables.held_bytes, all_tables.elements)


def test_an_element_takes_30_to_40_bytes() -> None:
    """One of 15 bytes with a value of 8, in tables of any size."""
    table = part_in_c().PackedMemory(1 << 30).table()
    for number in range(100_000):
        table.put(b"member:%08d" % number, b"%08d" % number)
        if number in {999, 9_999, 99_999}:
            assert 30 < table.held_bytes / len(table) < 40


def test_a_table_takes_bytes_alone() -> None:
    """And is made by its memory alone."""
    hot = part_in_c()
    table = hot.PackedMemory(1 << 30).table()
    wrongs: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (table.get, (b"a", None)), (table.get, (b"a",)), (table.put, ("a", b"b")), (table.put, (b"a", None)),
        (table.discard, (1,)), (type(table), ()), (hot.PackedMemory, ()), (hot.PackedMemory(9).limit, (b"9",)),
    ]  # fmt: skip
    for function, given in wrongs:
        with pytest.raises(TypeError):
            function(*given)


@pytest.mark.usefixtures("few")
def test_what_a_large_collection_was_given_is_not_read_again() -> None:
    """Nor what it never had, as long as all of it is in memory: from its first element on, over the change of form."""
    machine = machine_in_c(store := CountingStore())
    for number in range(12):
        send(machine, f"HSET h f{number} {number}", f"ZADD z {number} m{number}", f"SADD s m{number}")
    reads_of(store)

    assert [0, 1, b"6"] == send(machine, "HSET h f5 6", "HSET h new 1", "HGET h f5")
    assert [0, 1, 1, 0] == send(machine, "ZADD z 6 m5", "ZREM z m4", "SADD s new", "SADD s m1")
    assert [1, 0, None] == send(machine, "HDEL h f1", "HDEL h f1", "HGET h f1")
    assert 0 == reads_of(store)


@pytest.mark.usefixtures("few")
def test_what_is_long_is_read_where_it_is() -> None:
    """A long value is not kept, nor is the short one that stood there before; then what is not held is read."""
    machine = machine_in_c(store := CountingStore())
    send(machine, *(f"HSET h f{number} 1" for number in range(8)))
    send(machine, f"HSET h f1 {LONG}")
    reads_of(store)

    assert [LONG.encode(), b"1", None] == send(machine, "HGET h f1", "HGET h f2", "HGET h none")
    assert 2 == reads_of(store)
    send(machine, "HSET h f1 2")
    reads_of(store)
    assert [b"2"] == send(machine, "HGET h f1")
    assert 0 == reads_of(store)


@pytest.mark.usefixtures("few")
def test_what_is_read_stays_in_memory() -> None:
    """After a start a large collection has a table at once; what C reads fills it. What is absent is read again."""
    store = CountingStore()
    send(machine_in_c(store), *(f"HSET h f{number} 1" for number in range(8)))
    machine = machine_in_c(store)
    machine.read(b"HLEN", [b"h"])  # now its key is in memory
    for reads in (1, 0):
        parts: list[bytes] = []
        reads_of(store)
        taken = reader_of(machine)(native.READS[b"HGET"], [[b"HGET", b"h", b"f2"]] * 2, 0, 0, False, parts)
        assert ((2, 2, 14), [b"$1\r\n1\r\n" * 2]) == (taken, parts)
        assert reads == reads_of(store)
        assert [0] == send(machine, "HDEL h none")
        assert 1 == reads_of(store)
    assert [0, 1, b"2"] == send(machine, "HSET h f2 2", "HSET h new 1", "HGET h f2")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("key_cache_bytes", [0, 4_000, 80_000])
def test_tables_take_no_more_than_their_part(key_cache_bytes: int) -> None:
    """And all together no more than they may; what is let go of is read again, and right."""
    machine = machine_in_c(store := CountingStore(), key_cache_bytes)
    for number in range(40):
        for part in range(3):
            fields = " ".join(f"f{number}.{part}.{n} {n}" for n in range(100))
            send(machine, f"HSET h{number} {fields}", f"SET s{number}.{part} 1")
            held, packed = machine.held, packed_of(machine)
            assert held.key_bytes + held.element_bytes + held.rank_bytes <= held.bytes_max or not packed.elements
            assert packed_least(key_cache_bytes) <= packed.bytes_max <= key_cache_bytes
    assert packed_of(machine).elements >= (1000 if key_cache_bytes > 4_000 else 0)
    reads_of(store)
    assert [b"7", 0, b"8", 0] == send(machine, "HGET h0 f0.1.7", "HSET h0 f0.1.7 8", "HGET h0 f0.1.7", "HDEL h0 f0.1")
    assert 2 <= reads_of(store) <= 3


@pytest.mark.usefixtures("few")
def test_what_had_to_go_is_read_again() -> None:
    """Of a collection that was whole in memory, and is not any more."""
    machine = machine_in_c(CountingStore(), 8_000)
    send(machine, *(f"SADD s m{n}" for n in range(2000)))
    assert 0 < packed_of(machine).elements < 1000
    assert [0] * 2000 == send(machine, *(f"SADD s m{n}" for n in range(2000)))
    assert [2000] == send(machine, "SCARD s")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("size", [5, KEPT_SUBKEYS_MAX + 1])
def test_python_lets_go_of_what_is_packed(size: int) -> None:
    """Where it writes a key itself: it does not add to tables."""
    machine = machine_in_c(CountingStore())
    send(machine, *(f"HSET h f{number} 1" for number in range(5)))
    key = key_of(machine, b"h")
    assert key.data.packed is not None
    key.size = size
    key.data.changed[b"f1"] = b"2"
    write_keys([key], layout_of(), Changes(), key.version)
    assert None is key.data.packed


def test_pages_that_are_used_stay() -> None:
    """The others go in turn; of what has lost one nothing is said about elements that are not held."""
    tables = part_in_c().PackedMemory(200_000)
    used, others = tables.table(), tables.table()
    names = [b"%d" % number for number in range(500)]
    for name in names:
        used.put(name, b"value")
    for number in range(20_000):
        others.put(b"%d" % number, b"value")
        used.get(names[number % 500], b"")
        assert tables.held_bytes < 200_000 + 16_384
    assert sum(used.get(name, b"none") == b"value" for name in names) > 400
    assert 1000 < len(others) < 12_000
    tables.limit(5_000)
    assert tables.held_bytes <= 5_000
    assert tables.elements == len(used) + len(others) < 100
    del others, used
    assert 0 == tables.held_bytes


@pytest.mark.parametrize("bytes_max", [0, 3_000, 30_000])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_table_says_is_right_with_little_memory(seed: int, bytes_max: int) -> None:
    """Each value is the last one, or not known; and tables that end leave the others as they are."""
    random = Random(seed)
    memory_ = part_in_c().PackedMemory(bytes_max)
    tables: list[Any] = [memory_.table() for _ in range(3)]
    twins: list[dict[bytes, bytes]] = [{}, {}, {}]
    for _ in range(6000):
        at, element = random.randrange(3), b"%d" % random.randrange(900)
        chance = random.random()
        if chance < 0.001:
            tables[at], twins[at] = memory_.table(), {}
        elif chance < 0.1:
            tables[at].discard(element)
            twins[at].pop(element, None)
        elif chance < 0.5:
            twins[at][element] = b"v" * random.randrange(40)
            tables[at].put(element, twins[at][element])
        else:
            found = tables[at].get(element, b"unknown")
            assert found in {twins[at].get(element), b"unknown"}, element
        assert memory_.elements == sum(map(len, tables))
        assert memory_.held_bytes == sum(table.held_bytes for table in tables)


@pytest.mark.usefixtures("few")
def test_a_table_becomes_small_again() -> None:
    """When all elements of a very large collection but one are deleted; and what is gone needs no read."""
    machine = machine_in_c(store := CountingStore())
    for start in range(0, 6000, 500):
        send(machine, "SADD s " + " ".join(f"m{n}" for n in range(start, start + 500)))
    assert 6000 == machine.held.elements
    assert packed_of(machine).held_bytes > 70_000
    for start in range(0, 5900, 100):
        send(machine, "SREM s " + " ".join(f"m{n}" for n in range(start, start + 100)))
    reads_of(store)
    assert [0, 99] == send(machine, "SREM s m1", "SREM s " + " ".join(f"m{n}" for n in range(5900, 5999)))
    assert 1 == machine.held.elements
    assert packed_of(machine).held_bytes < 5_000
    assert [1, 1, 0] == send(machine, "SREM s m5999", "SADD s m1", "SADD s m1")
    assert 0 == reads_of(store)


@pytest.mark.usefixtures("few")
def test_what_a_busy_store_has_refused_is_kept_once() -> None:
    """They are kept before the write, so the second try meets them again, and what has changed since."""
    store = WatchedStore()
    with running(natively=True):
        machine = open_machine(store)
    send(machine, *(f"HSET h f{number} 1" for number in range(8)))
    apply(machine, event(8, f"HSET h f1 2 f2 {LONG} f9 3"))
    for _ in range(2):
        store.failures.append(StoreBusyError("a stall"))
        with pytest.raises(StoreBusyError):
            machine.commit(FINGERPRINT)
        assert [b"2", LONG.encode(), b"3", None] == machine.read(b"HMGET", [b"h", b"f1", b"f2", b"f9", b"d"])
    apply(machine, event(9, "HDEL h f1"))
    machine.commit(FINGERPRINT)
    assert [None, LONG.encode(), b"3"] == machine.read(b"HMGET", [b"h", b"f1", b"f2", b"f9"])
    assert 7 == packed_of(machine).elements  # all but the long one and that which is gone


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(6))
def test_replies_and_records_are_those_of_python(seed: int) -> None:
    """Whatever becomes of large collections and their keys, and however little memory there is."""
    random = Random(seed)
    cache = random.choice([0, 3_000, 20_000, 1 << 22])
    stores = [new_store(), new_store()]
    machines = []
    for store, natively in zip(stores, (True, False), strict=True):
        with running(natively=natively):
            machines.append(Machine(store, HOME, key_cache_bytes=cache))
    for _ in range(400):
        commands = []
        for _ in range(random.randrange(1, 6)):
            h, s, z = (f"{kind}{random.randrange(3)}" for kind in "hsz")
            f, value = f"f{random.randrange(60)}", random.choice(["1", "22", LONG])
            many = " ".join(f"f{random.randrange(60)} {random.randrange(9)}" for _ in range(random.choice([1, 9])))
            commands.append(
                random.choice(
                    [f"HSET {h} {many}", f"HSET {h} {f} {value}", f"SADD {s} {f}", f"ZADD {z} {len(value)} {f}"] * 4
                    + [f"HDEL {h} {f}", f"SREM {s} {f}", f"ZREM {z} {f}", f"HINCRBY {h} n{f} 2"] * 2
                    + [f"HGET {h} {f}", f"ZSCORE {z} {f}", f"SISMEMBER {s} {f}", f"HMGET {h} {f} f1", f"ZRANK {z} {f}"]
                    + [f"RENAME {h} {h}x", f"COPY {h}x {h} REPLACE", f"SUNIONSTORE {s} s0 s1", f"ZINCRBY {z} 1 {f}"]
                    + [f"SPOP {s}", f"ZPOPMIN {z}", f"ZREMRANGEBYRANK {z} 3 4"]
                    + [f"HPEXPIRE {h} 1000 FIELDS 1 {f}", f"DEL {random.choice([h, s, z])}"] * (random.random() < 0.2)
                )
            )  # fmt: skip
        replies = [repr(send(machine, *commands)) for machine in machines]
        assert replies[0] == replies[1], commands
        if random.random() < 0.05:
            for machine in machines:
                machine.rollback()
    assert list(stores[0].scan("data", b"", None)) == list(stores[1].scan("data", b"", None))
    assert packed_of(machines[0]).elements == sum(
        len(key.data.packed)
        for key in machines[0]._tx._overlay.databases[0].values()
        if key.version and key.data.packed is not None
    )


def test_python_alone_packs_nothing() -> None:
    """It has no tables: see `KEPT_SUBKEYS_MAX`."""
    assert None is machine_of(new_store(), natively=False)._tx._overlay.memory.packed
    assert native.chosen() is not None
    assert 3 / 8 == memory.packed_least(800) / 800
