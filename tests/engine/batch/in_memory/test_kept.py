"""Subkeys that stay in memory when their batch is written."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Final

import pytest

from engine.apply.machine import Machine, Record
from engine.batch import overlaid
from engine.batch.in_memory import writing
from engine.batch.in_memory.memory import kept_of
from engine.batch.overlaid import KEPT_BYTES_MAX
from engine.batch.variants.uncounted import UncountedTransaction
from engine.errors import StoreBusyError
from engine.layouts.layout import Form
from engine.store.store import Changes
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, WatchedStore, apply, event, new_store, open_machine, send
from tests.engine.native.twins import CountingStore, machine_of, running
from tests.layouts import layout_of

LONG = "v" * KEPT_BYTES_MAX
LARGE = 1000


@pytest.fixture(params=[False, True], ids=["Python", "compiled"])
def machine(request: pytest.FixtureRequest) -> Machine:
    """A machine on either half."""
    with running(natively=request.param):
        return Machine(CountingStore(), HOME, key_cache_bytes=1 << 26)


def reads(machine: Machine) -> list[tuple[str, bytes]]:
    """What was read of the store since the last call, but metadata."""
    store = machine._store
    assert isinstance(store, CountingStore)
    found = [read for read in store.reads if read[0] != "metadata" and not read[0].startswith("system")]
    store.reads.clear()
    return found


def is_counted(machine: Machine) -> bool:
    """Whether HSET and SADD look at what is there: else nothing of hashes and sets is kept."""
    return not isinstance(machine._tx, UncountedTransaction)


def is_packed(machine: Machine) -> bool:
    """Whether elements of large collections are packed."""
    return machine._tx._overlay.memory.packed is not None


def is_exact(machine: Machine) -> bool:
    """Whether as many subkeys are counted as are kept, and as much weight as the keys in memory have."""
    overlay = machine._tx._overlay
    keys = [key for keys in overlay.databases.values() for key in keys.values()]
    assert all(key.weight for key in keys) or machine.is_held or overlay.touched
    return (sum(map(kept_of, keys)), sum(key.weight for key in keys)) == (overlay.memory.subkeys, overlay.memory.weight)


def test_what_was_written_is_not_read_again(machine: Machine) -> None:
    """Fields, members and scores that this process has put or deleted are known, and those that it never made."""
    send(machine, "HSET h a 1 b 2", "SADD s a b", "ZADD z 1 a 2 b", "HDEL h b")
    reads(machine)

    assert [0, 7.0, 1] == send(machine, "ZADD z 5 a", "ZINCRBY z 5 b", "ZADD z 1 new")
    assert [] == reads(machine)
    if is_counted(machine):
        assert [0, 1, 1] == send(machine, "HSET h a 3", "HSET h b 4", "HSET h new 5")
        assert [0, 1, 1, b"3"] == send(machine, "SADD s a", "SREM s b", "SADD s new", "HGET h a")
        assert [] == reads(machine)
    assert is_exact(machine)


def test_what_is_long_is_read_where_it_is(machine: Machine) -> None:
    """A long value is not kept, nor is the short one that stood there before."""
    send(machine, "HSET h a 1")
    send(machine, f"HSET h a {LONG}")
    reads(machine)

    assert [LONG.encode(), None] == send(machine, "HGET h a", "HGET h b")
    assert 2 == len(reads(machine))
    send(machine, "HSET h a 2")
    reads(machine)
    assert [b"2", None] == send(machine, "HGET h a", "HGET h b")
    assert (1 if is_counted(machine) else 2) == len(reads(machine))


def test_of_a_collection_that_is_large_no_dict_keeps_any(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no dict of them is large; a small one does not end up with those that it has lost either. C packs them."""
    for module in (overlaid, writing):
        monkeypatch.setattr(module, "KEPT_SUBKEYS_MAX", LARGE)
    monkeypatch.setattr(writing, "DICT_SUBKEYS_MAX", LARGE)
    fields = " ".join(f"f{n} 1" for n in range(LARGE))
    send(machine, f"HSET h {fields}")
    kept = machine.held.elements
    send(machine, "HSET h more 1")

    assert kept == (LARGE if is_counted(machine) else 0)
    assert (LARGE + 1 if is_packed(machine) else 0) == machine.held.elements
    assert is_exact(machine)
    send(machine, "HSET h f0 2")
    assert [b"2", b"1", None] == send(machine, "HGET h f0", "HGET h more", "HGET h none")


def test_a_key_that_is_made_anew_knows_nothing_of_the_one_before(machine: Machine) -> None:
    """Nor does one that was thrown away with its batch."""
    send(machine, "HSET h a 1", "SADD s a")
    assert [1, None, 1, None] == send(machine, "DEL h", "HGET h a", "HSET h b 1", "HGET h a")
    machine.apply([(machine.next_offset, NOW_MS, b"HSET", [b"h", b"c", b"1"], 0, None, None)], machine.next_offset)
    machine.rollback()
    assert 0 == machine.held.elements

    assert [None, b"1", 1] == send(machine, "HGET h c", "HGET h b", "SCARD s")
    send(machine, "FLUSHALL")
    assert is_exact(machine)
    assert [None, 1] == send(machine, "HGET h b", "SADD s a")


@pytest.mark.parametrize("natively", [False, True])
def test_what_a_busy_store_has_refused_is_kept_once(natively: bool) -> None:
    """They are kept before the write, so the second try meets them again, and what has changed since."""
    store = WatchedStore()
    machine = machine_of(store, natively=natively)
    send(machine, "HSET h a 1 b 1")
    apply(machine, event(1, f"HSET h a 2 b {LONG} c 3"))
    for _ in range(2):
        store.failures.append(StoreBusyError("a stall"))
        with pytest.raises(StoreBusyError):
            machine.commit(FINGERPRINT)
        assert is_exact(machine)
        assert [b"2", LONG.encode(), None] == machine.read(b"HMGET", [b"h", b"a", b"b", b"d"])
    apply(machine, event(2, "HDEL h a"))
    machine.commit(FINGERPRINT)

    assert is_exact(machine)
    assert [None, LONG.encode(), b"3"] == machine.read(b"HMGET", [b"h", b"a", b"b", b"c"])
    assert [None, LONG.encode(), b"3"] == open_machine(store).read(b"HMGET", [b"h", b"a", b"b", b"c"])


@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_are_counted_as_are_kept(seed: int, natively: bool) -> None:
    """Whatever becomes of their keys; and there are not many more than may be."""
    random = Random(seed)
    machine = machine_of(new_store(), natively=natively)
    has_times = Form.FIELD_TIMES in layout_of().forms
    most = most_bytes = 0
    for _ in range(300):
        commands = []
        for _ in range(random.randrange(1, 5)):
            h, s, z, f = (f"{kind}{random.randrange(4)}" for kind in "hszf")
            value = random.choice(("1", "22", LONG))
            commands.append(
                random.choice(
                    [f"HSET {h} {f} {value}"] * 4
                    + [
                        f"SADD {s} {f}",
                        f"ZADD {z} 1 {f}",
                        f"HDEL {h} {f}",
                        f"ZREM {z} {f}",
                        f"DEL {h}",
                        f"SREM {s} {f}",
                    ]
                    + [f"PEXPIRE {h} 5", f"RENAME {s} {s}x", f"SET {h} 1", f"SUNIONSTORE {s} {s} {s}x"]
                    + ([f"HPEXPIRE {h} 1000 FIELDS 1 {f}"] if has_times else [])
                    + ["FLUSHALL"] * (random.random() < 0.05)
                )
            )
        send(machine, *commands, at_ms=machine.clock_ms + random.randrange(3) if machine.clock_ms else NOW_MS)
        assert is_exact(machine)
        held = machine.held
        most, most_bytes = max(most, held.elements), max(most_bytes, held.key_bytes + held.element_bytes)
        if random.random() < 0.05:
            machine.rollback()
            assert is_exact(machine)
    assert 0 < most_bytes <= machine.held.bytes_max
    assert most > 0


@pytest.mark.parametrize(
    ("bytes_max", "kept"), [(7300, [6, 6, 6]), (7000, [0, 6, 6]), (6000, [None, 6, 6]), (2000, [None, None, 0])]
)
def test_of_the_oldest_elements_go_first(bytes_max: int, kept: list[int | None]) -> None:
    """As long as they have more than half: what a key is itself is read by one get. Then the oldest keys go."""
    store = WatchedStore()
    machine = open_machine(store, key_cache_bytes=bytes_max)
    records: list[Record] = [
        (n, NOW_MS, b"ZADD", [b"z%d" % (n // 6), b"1", b"m%d" % n], 0, None, None) for n in range(18)
    ]
    machine.apply(records, 0)
    machine.commit(FINGERPRINT)

    keys = machine._tx._overlay.databases[0]
    assert kept == [kept_of(keys[name]) if name in keys else None for name in (b"z0", b"z1", b"z2")]
    assert is_exact(machine)


@pytest.mark.parametrize("natively", [False, True])
def test_keys_take_no_more_than_they_may(natively: bool) -> None:
    """However large names and values are; those that were met last stay."""
    machine = machine_of(new_store(), natively=natively)
    random = Random(1)
    for n in range(200):
        send(machine, *(f"SET {'k' * random.randrange(400)}{n}.{m} {'v' * random.randrange(600)}" for m in range(5)))
        held = machine.held
        assert held.key_bytes + held.element_bytes + held.rank_bytes <= held.bytes_max
        assert is_exact(machine)
    assert held.key_bytes > held.bytes_max * 3 // 4
    assert list(machine._tx._overlay.databases[0])[-1].endswith(b"199.4")


_KINDS: Final = ("SET k{} " + "v" * 100, "LPUSH k{} {}", "HSET k{} f{} v{}", "SADD k{} m{}", "ZADD k{} {} m{}")


class _Nowhere(WatchedStore):
    """Keeps nothing of what is written, so that what was allocated is the keys in memory."""

    def write(self, changes: Changes) -> None:
        """Nothing."""


@pytest.mark.parametrize("command", _KINDS)
def test_the_estimate_is_near_what_python_takes(command: str) -> None:
    """Within a quarter, for keys of every type."""
    machine = Machine(_Nowhere(), HOME, key_cache_bytes=1 << 26)
    send(machine, command.replace("{}", "0"))
    tracemalloc.start()
    try:
        send(machine, *(command.replace("{}", str(n)) for n in range(1000, 3000)))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    held = machine.held
    assert taken * 0.75 < held.key_bytes + held.element_bytes < taken * 1.25


@pytest.mark.parametrize("natively", [False, True])
def test_what_reads_alone_load_counts_too(natively: bool) -> None:
    """Also of keys that are not there."""
    with running(natively=natively):
        machine = Machine(new_store(), HOME, key_cache_bytes=100_000)
    for n in range(2000):
        machine.read(b"GET", [b"nosuch%d" % n])
        assert len(machine._tx._overlay.touched) < 300
    assert 0 < machine.held.key_bytes <= 100_000
    assert machine.held.keys * 400 < 100_000 + 300 * 400
