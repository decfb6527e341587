"""The sweep: what is due by the partition's clock goes, slice by slice, along the expiry index and no further."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.apply.machine import Machine
from engine.cleaning.sweep import Sweeper, Swept
from engine.commands.registry import SPECS
from engine.errors import StoreBusyError
from engine.layouts.layout import Form, Kind
from engine.model import HASH
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, LOCAL_CF, Changes
from engine.tables.expiry_index import EXPIRY_CURSOR
from engine.values.encoding import pack_u64
from engine.values.replies import NIL_ARRAY, OK
from tests.consistency import problems
from tests.engine.harness import NOW_MS, WatchedStore, apply, event, family, new_store, open_machine, send
from tests.engine.stored import described, is_of, key_of, put, stored, subkeys_of
from tests.layouts import layout_of

NOTHING = Swept([], [], more=False, due_ms=0, order=[])


class CountingStore(WatchedStore):
    """Notes where the scans of the expiry index begin, and those of the fields' times."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[bytes] = []
        self.time_starts: list[bytes] = []

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As any store."""
        if column_family == EXPIRY_CF:
            self.starts.append(start)
        elif is_of(Kind.TIMES, column_family, start) and not reverse:
            self.time_starts.append(start)
        return super().scan(column_family, start, end, reverse=reverse)


@pytest.fixture
def store() -> CountingStore:
    """An empty store."""
    return CountingStore()


@pytest.fixture
def machine(store: CountingStore) -> Machine:
    """The machine of that store."""
    return open_machine(store)


@pytest.fixture
def sweeper(machine: Machine, store: CountingStore) -> Sweeper:
    """The sweeper of that machine."""
    return Sweeper(machine, store)


def tick(machine: Machine, ms: int) -> None:
    """Let the clock come to `NOW_MS + ms`."""
    send(machine, "TICK", at_ms=NOW_MS + ms)


def all_of(sweeper: Sweeper, keys_max: int = 100) -> list[tuple[int, bytes]]:
    """Sweep to the end. What has gone."""
    keys: list[tuple[int, bytes]] = []
    while True:
        swept = sweeper.expire(keys_max)
        keys += swept.keys
        if not swept.more:
            return keys


# ------------------------------------------------------------------ keys


def test_a_key_that_is_due_leaves_only_its_elements(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """Of every type: record, count and index entry are gone, a grave says what is left."""
    lines = ["SET s 1", "SETRANGE large 140000 x", "HSET h f v", "RPUSH l a", "SADD e a", "ZADD z 1 a"]
    names = [line.split()[1] for line in lines]
    send(machine, *lines, *(f"PEXPIRE {name} 10" for name in names), "SET stays 1", "SET later 1 PX 11")
    tick(machine, 10)
    before = machine.position
    swept = sweeper.expire(100)

    assert sorted((0, name.encode()) for name in names) == sorted(swept.keys)
    assert ([], False, 0, swept.keys) == swept[1:]
    assert {key_of(b"stays"), key_of(b"later")} == stored(store, Kind.METADATA).keys()
    assert [pack_u64(NOW_MS + 11) + key_of(b"later")] == list(family(store, EXPIRY_CF))
    assert 4 + (Form.FRAGMENTS in layout_of().forms) == len(family(store, GRAVEYARD_CF))
    assert 2 == machine.read(b"DBSIZE", [])
    assert (before.next_offset, before.clock_ms) == (machine.position.next_offset, machine.position.clock_ms)
    assert open_machine(store).key_counts == machine.key_counts


def test_names_are_told_with_the_database_that_clients_know(machine: Machine, sweeper: Sweeper) -> None:
    """After a SWAPDB that is not where the records are."""
    for db in (0, 3):
        send(machine, f"SET in{db} 1 PX 5", db=db)
    send(machine, "SWAPDB 3 7", at_ms=NOW_MS + 5)

    assert {(0, b"in0"), (7, b"in3")} == set(sweeper.expire(9).keys)


def test_slices_go_on_where_the_last_one_ended(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """At most so many keys each; what is left is told, with its age; at the end the walk stands behind the clock."""
    send(machine, *(f"SET k{n} 1 PX {n + 1}" for n in range(8)))
    tick(machine, 6)
    sizes = [(len(swept.keys), swept.more, swept.due_ms) for swept in (sweeper.expire(4), sweeper.expire(4))]

    assert [(4, True, NOW_MS + 5), (2, False, 0)] == sizes
    assert pack_u64(NOW_MS + 7) == store.getter(LOCAL_CF)(EXPIRY_CURSOR)
    writes = len(store.batches)
    assert NOTHING == sweeper.expire(4)
    assert writes == len(store.batches)


def test_large_strings_make_a_slice_short(machine: Machine, sweeper: Sweeper) -> None:
    """A slice reads a MiB of them and one more, however many keys it may take and whatever was read before."""
    value = "x" * 100_000
    send(machine, *(f"SET k{n} {value} PX 5" for n in range(30)), f"SET other {value}")
    tick(machine, 5)
    sizes: list[int] = []
    while sum(sizes) < 30:
        machine.evaluate(SPECS[b"GET"], [b"other"], 0)
        sizes.append(len(sweeper.expire(1000).keys))

    assert [11, 11, 8] == sizes


def test_a_sweep_crosses_no_tombstones_of_another(machine: Machine, store: CountingStore) -> None:
    """Not even one that begins anew: what was walked past is kept, in the batch of what has gone."""
    send(machine, *(f"SET k{n} 1 PX {n + 1}" for n in range(8)))
    tick(machine, 6)
    swept = Sweeper(machine, store).expire(2)
    last = store.batches[-1].values
    store.starts.clear()
    Sweeper(open_machine(store), store).expire(3)

    assert 2 == len(swept.keys)
    assert [last[LOCAL_CF][EXPIRY_CURSOR]] == store.starts
    assert pack_u64(NOW_MS + 3) + key_of(b"k2") == store.starts[0]
    assert [None, None] == [value for entry, value in last[EXPIRY_CF].items()]


def test_what_is_not_committed_is_not_swept(machine: Machine, sweeper: Sweeper) -> None:
    """Whoever owns the machine commits first."""
    send(machine, "SET k 1 PX 5")
    apply(machine, event(1, "TICK", at_ms=NOW_MS + 5))

    with pytest.raises(ValueError, match="up to offset 2 are not committed"):
        sweeper.expire(9)
    with pytest.raises(ValueError, match="up to offset 2 are not committed"):
        sweeper.forget()
    assert not machine.is_settled


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_store_that_is_busy_is_asked_again(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """Nothing was written, nothing is forgotten."""
    send(machine, "SET k 1 PX 5", "HSETEX h PX 5 FIELDS 1 f 1", "HSET h g 1")
    tick(machine, 5)
    store.failures = [StoreBusyError("busy")]

    with pytest.raises(StoreBusyError):
        sweeper.expire(9)
    assert machine.is_settled
    swept = sweeper.expire(9)
    assert Swept([(0, b"k")], [(0, b"h", 1)], more=False, due_ms=0, order=swept.order) == swept
    assert [(0, b"h"), (0, b"k")] == sorted(swept.order)  # at one time it is that of the layout's records
    assert [] == problems(store)


def test_a_key_that_comes_back_is_a_new_one(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """What was in memory of a swept key is forgotten with it."""
    send(machine, "HSET h f v", "PEXPIRE h 5", "SET s 1 PX 5", "HGET h f")
    tick(machine, 5)
    sweeper.expire(9)
    again = send(machine, "HSET h g w", "HGETALL h", "SET s 2 PX 3", "PTTL s", at_ms=NOW_MS + 5)

    assert [1, [(b"g", b"w")], OK, 3] == again
    assert [pack_u64(NOW_MS + 8) + key_of(b"s")] == list(family(store, EXPIRY_CF))


@pytest.mark.form(Form.FIELD_TIMES)
def test_keys_in_use_stay_in_memory(store: CountingStore) -> None:
    """Swept keys take the place of none, and none of their own."""
    machine = open_machine(store, key_cache_bytes=4200)
    send(machine, *(f"SET cold{n} 1 PX 5" for n in range(100)))
    send(machine, *(f"HSET mixed{n} f 1" for n in range(20)))
    send(machine, *(f"HSETEX mixed{n} PX 5 FIELDS 1 g 1" for n in range(20)))
    send(machine, *(f"SET hot{n} 1" for n in range(10)), at_ms=NOW_MS + 5)
    in_memory = list(machine._tx._overlay.databases[0])
    swept = Sweeper(machine, store).expire(1000)

    assert (100, 20) == (len(swept.keys), len(swept.fields))
    assert len(in_memory) in range(5, 11)
    assert in_memory == list(machine._tx._overlay.databases[0])


def test_a_swept_key_leaves_memory(machine: Machine, sweeper: Sweeper) -> None:
    """Nobody asks for it again, and another one has its place."""
    send(machine, "SET old 1 PX 5", "HSET h f v", "PEXPIRE h 5", "RPUSH other v")
    tick(machine, 5)
    sweeper.expire(9)

    assert [b"other"] == list(machine._tx._overlay.databases[0])
    assert 0 == machine.held.elements
    assert [OK, b"2", 0] == send(machine, "SET old 2", "GET old", "EXISTS h", at_ms=NOW_MS + 5)


# ------------------------------------------------------------------ fields


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_hash_loses_the_fields_that_are_due(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """And is listed for its next one, in the end for its own death."""
    send(machine, "HSET h a 1", "HSETEX h PX 5 FIELDS 2 b 1 c 1", "HSETEX h PX 9 FIELDS 1 d 1", "PEXPIRE h 20")
    listed = [family(store, EXPIRY_CF)]
    tick(machine, 5)
    first = sweeper.expire(9)
    listed.append(family(store, EXPIRY_CF))
    tick(machine, 9)
    second = sweeper.expire(9)
    listed.append(family(store, EXPIRY_CF))

    key = key_of(b"h")
    assert ([(0, b"h", 2)], [(0, b"h", 1)]) == (first.fields, second.fields)
    assert [pack_u64(NOW_MS + ms) + key for ms in (5, 9, 20)] == [next(iter(entries)) for entries in listed]
    assert [b"\1", b"\1", b""] == [next(iter(entries.values())) for entries in listed]
    assert [b"a"] == list(subkeys_of(store, b"h"))
    assert {} == stored(store, Kind.TIMES)
    tick(machine, 20)
    assert [(0, b"h")] == sweeper.expire(9).keys


@pytest.mark.form(Form.FIELD_TIMES)
def test_many_fields_go_over_many_slices(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """A field costs what a key costs, and no key that stands between two of them is passed by."""
    for n in range(10):
        send(machine, f"HSETEX h PX {1 + n} FIELDS 2 a{n} 1 b{n} 1", f"SET k{n} 1 PX {1 + n}")
    send(machine, "HSET h stays 1")
    tick(machine, 10)
    slices: list[Swept] = []
    while not slices or slices[-1].more:
        slices.append(sweeper.expire(3))

    assert max(len(swept.keys) + sum(count for *_, count in swept.fields) for swept in slices) == 3
    assert 20 == sum(count for swept in slices for *_, count in swept.fields)
    assert 10 == sum(len(swept.keys) for swept in slices)
    assert {} == family(store, EXPIRY_CF)


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_hash_goes_with_its_last_fields(machine: Machine, sweeper: Sweeper) -> None:
    """Then it stands among both, however many fields it had; by its own time to live among the keys alone."""
    send(machine, "HSETEX by_fields PX 5 FIELDS 3 a 1 b 1 c 1", "HSETEX own PX 5 FIELDS 1 a 1", "PEXPIRE own 4")
    tick(machine, 5)
    swept = sweeper.expire(9)

    assert {(0, b"by_fields"), (0, b"own")} == set(swept.keys)
    assert [(0, b"by_fields", 3)] == swept.fields


@pytest.mark.form(Form.FIELD_TIMES)
def test_nothing_due_comes_behind_the_walk(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """Hashes with fields that are due, copied and renamed to names that the walk has passed, or written anew."""
    names = [f"k{n}" for n in range(9)]
    for name in names:
        send(machine, f"HSET {name} a 1", f"HSETEX {name} PX 5 FIELDS 1 b 1", f"HSETEX {name} PX 7 FIELDS 1 c 1")
    order = [entry[-2:].decode() for entry in family(store, EXPIRY_CF)]
    tick(machine, 5)
    assert 4 == len(sweeper.expire(4).fields)
    last, fifth, sixth, seventh = order[-1], order[4], order[5], order[6]
    send(
        machine,
        *(f"RENAME {last} {order[0]}", f"COPY {fifth} {order[1]} REPLACE", f"COPY {fifth} copy", "HKEYS copy"),
        *(f"HSET {sixth} b 2", f"HPEXPIRE {seventh} 9 FIELDS 1 c", f"HSETEX {fifth} PX 1 FIELDS 1 d 1"),
        *(f"HDEL {seventh} c", f"PEXPIRE {sixth} 90"),
        at_ms=NOW_MS + 5,
    )
    assert [] == problems(store)
    all_of(sweeper, 1)
    tick(machine, 7)
    all_of(sweeper, 1)

    assert [] == problems(store)
    assert all(entry > pack_u64(NOW_MS + 7) for entry in family(store, EXPIRY_CF))
    assert [[b"a"]] == send(machine, f"HKEYS {order[0]}", at_ms=NOW_MS + 7)


# ------------------------------------------------------------------ damage


@pytest.mark.damaging
@pytest.mark.parametrize(
    ("entry", "content"),
    [
        (pack_u64(NOW_MS) + key_of(b"nothing"), b""),
        (pack_u64(NOW_MS) + key_of(b"lives"), b""),
        (pack_u64(NOW_MS) + key_of(b"dies"), b""),
        (pack_u64(NOW_MS) + key_of(b"dies", 99), b""),
        (pack_u64(NOW_MS) + b"no key", b""),
        (pack_u64(NOW_MS) + key_of(b"dies"), b"?"),
        (b"short", b""),
    ],
)
def test_an_entry_that_no_key_has_is_walked_past(
    machine: Machine, store: CountingStore, sweeper: Sweeper, entry: bytes, content: bytes
) -> None:
    """It stays for the audit to report; all others are swept."""
    send(machine, "SET lives 1", "SET dies 1 PX 5", "SET later 1 PX 99")
    changes = Changes()
    changes.of(EXPIRY_CF)[entry] = content
    store.write(changes)
    tick(machine, 5)

    assert [(0, b"dies")] == all_of(sweeper, 1)
    assert content == family(store, EXPIRY_CF)[entry]
    assert [OK, b"1"] == send(machine, "SET x 1", "GET lives")


@pytest.mark.damaging
@pytest.mark.form(Form.FIELD_TIMES)
def test_a_hash_whose_metadata_lies_is_walked_past(machine: Machine, store: CountingStore, sweeper: Sweeper) -> None:
    """It says that a field is due which has no records."""
    send(machine, "HSET h a 1", "HSETEX h PX 5 FIELDS 1 b 1", "HSETEX h PX 9 FIELDS 1 c 1", "SET k 1 PX 5")
    put(store, Kind.TIMES, *((record, None) for record in stored(store, Kind.TIMES) if record.endswith(b"b")))
    del machine, sweeper
    machine = open_machine(store)
    tick(machine, 5)

    assert [(0, b"k")] == all_of(Sweeper(machine, store), 1)
    assert HASH == described(store)[key_of(b"h")].type


# ------------------------------------------------------------------ who looks on


def test_a_watched_key_that_is_swept_is_one_that_died(machine: Machine, sweeper: Sweeper) -> None:
    """The watch of a key that was alive is lost, that of one that was dead holds, swept or not."""
    ann, bob = b"session of ann..", b"session of bob.."
    send(machine, "SET k 1 PX 5")
    apply(machine, (1, NOW_MS, b"WATCH", [b"k"], 0, None, ann), (2, NOW_MS + 5, b"WATCH", [b"k"], 0, None, bob))
    machine.commit(None)
    swept = sweeper.expire(9)
    steps = [(3 + n, NOW_MS + 5, b"EXEC", [[b"GET", b"k"]], 0, None, session) for n, session in enumerate((ann, bob))]

    assert [(0, b"k")] == swept.keys
    assert {3: NIL_ARRAY, 4: [None]} == apply(machine, *steps).outcomes


def test_the_other_machine_of_a_store_sees_what_was_swept() -> None:
    """A machine that opens the store goes on from there."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "SET k 1 PX 5")
    tick(machine, 5)
    Sweeper(machine, store).expire(1)

    assert [None, 1] == send(open_machine(store), "GET k", "INCR k", at_ms=NOW_MS + 5)


@pytest.mark.parametrize("key_cache_bytes", [0, 1 << 20])
@pytest.mark.form(Form.FIELD_TIMES)
def test_fields_that_die_at_one_moment_are_walked_once(key_cache_bytes: int) -> None:
    """Each slice begins behind those that went: their tombstones would make it as slow as all slices before it."""
    store = CountingStore()
    machine = open_machine(store, key_cache_bytes=key_cache_bytes)
    fields = [b"f%02d" % n for n in range(50)]
    words = b" ".join(word for field in fields for word in (field, b"v")).decode()
    send(machine, "HSET h alive 1", f"HSETEX h PX 100 FIELDS 50 {words}")
    tick(machine, 100)
    sweeper = Sweeper(machine, store)
    for last in (b"", *fields[9:49:10]):
        store.time_starts.clear()
        assert [(0, b"h", 10)] == sweeper.expire(10).fields
        if last:
            assert store.time_starts[0].endswith(last + b"\0")
            assert store.time_starts[0] == min(store.time_starts)
    send(machine, "HSETEX h PX 100 FIELDS 1 f00 v", at_ms=NOW_MS + 100)
    tick(machine, 200)

    assert [(0, b"h", 1)] == sweeper.expire(10).fields
    assert [] == problems(store)
