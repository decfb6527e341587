"""The room of dead collections is given back, whatever they were, and nothing else is touched."""

from __future__ import annotations

from random import Random

import pytest

from engine.apply.machine import Machine
from engine.batch import staging
from engine.cleaning import reclaim
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.errors import CorruptionError, StoreBusyError
from engine.layouts.layout import Form, Kind
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF, LOCAL_CF, SHARED_CFS, Changes, Store
from engine.tables.graveyard import CURSOR
from engine.values.encoding import pack_u64
from tests.engine.harness import (
    FAMILIES,
    HOME,
    NOW_MS,
    WatchedStore,
    apply,
    event,
    family,
    feed,
    new_store,
    open_machine,
    records_of,
    send,
)
from tests.engine.proof.lived import key_of, lived, metadata_of
from tests.engine.stored import is_of, put, stored, written
from tests.engine.workload import random_records
from tests.layouts import layout_of, member_kind


@pytest.fixture
def store() -> WatchedStore:
    """An empty store that keeps its batches."""
    return WatchedStore()


@pytest.fixture
def machine(store: WatchedStore) -> Machine:
    """Its machine."""
    return open_machine(store)


def reclaim_all(reclaimer: Reclaimer, store: Store, records_max: int = 10_000) -> list[reclaim.Reclaimed]:
    """Every slice until nothing is left; after each of them an audit finds nothing."""
    slices: list[reclaim.Reclaimed] = []
    while not slices or slices[-1].more:
        slices.append(reclaimer.reclaim(records_max))
        assert [] == list(Audit(store, HOME).violations())
        assert len(slices) < 10_000
    return slices


def subkeys(store: Store) -> int:
    """How many records of subkeys are stored."""
    return sum(len(stored(store, kind)) for kind in Kind if kind != Kind.METADATA)


def test_a_dead_collection_of_every_form_is_reclaimed() -> None:
    """Hashes with and without field times, lists, sets, sorted sets with rank counts and strings in fragments."""
    store = lived()
    machine = open_machine(store)
    alive = subkeys(store)
    send(machine, "FLUSHDB", db=2)
    before = digest(store, layout_of(), machine.clock_ms)
    graves = len(family(store, GRAVEYARD_CF))
    slices = reclaim_all(Reclaimer(machine, store), store)

    assert 4 + (Form.FRAGMENTS in layout_of().forms) <= graves == sum(reclaimed.graves for reclaimed in slices)
    assert {} == family(store, GRAVEYARD_CF)
    assert subkeys(store) < alive
    assert before == digest(store, layout_of(), machine.clock_ms)


@pytest.mark.exact
def test_a_small_collection_goes_record_by_record(store: WatchedStore, machine: Machine) -> None:
    """Up to a thousand elements: no range delete, nothing to compact, and the grave in the same batch."""
    send(machine, "HSET h a 1 b 2", "ZADD z 1 a", "RPUSH l a b c", "DEL h z l")

    assert (3, 6, 0, False) == Reclaimer(machine, store).reclaim(1000)
    (batch,) = store.batches[1:]
    assert [] == batch.ranges
    assert {Kind.DATA: 6, Kind.SCORES: 1} == {kind: count for kind in Kind if (count := len(written(batch, kind)))}
    assert {GRAVEYARD_CF: 3, LOCAL_CF: 1} == {
        name: len(batch.values[name]) for name in SHARED_CFS if batch.values.get(name)
    }
    assert 0 == subkeys(store)


def test_a_large_collection_goes_by_range_deletes(store: WatchedStore, machine: Machine) -> None:
    """More elements: one range delete for each of its column families, which then wait for their compaction."""
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(1001)), "RPUSH l a", "DEL z l")
    reclaimer = Reclaimer(machine, store)

    kinds = {member_kind(), Kind.SCORES, Kind.RANKS, Kind.COUNTS, Kind.NAMES} & layout_of().families.keys()
    assert (2, 1002, len(kinds), False) == reclaimer.reclaim(1000)
    assert 0 == subkeys(store)
    assert kinds == {kind for kind in Kind for deleted in reclaimer.ranges() if is_of(kind, *deleted[:2])}
    for deleted in reclaimer.ranges():
        reclaimer.compacted(deleted)
    assert [CURSOR] == list(family(store, LOCAL_CF))


def test_a_collection_of_large_elements_goes_by_a_range_delete(store: WatchedStore, machine: Machine) -> None:
    """A few elements of many bytes are not read to their end."""
    apply(machine, *[(n, NOW_MS, b"RPUSH", [b"l", bytes(400_000)], 0, None, None) for n in range(20)])
    apply(machine, event(20, "DEL l"))
    machine.commit(b"mark")

    assert (1, 20, 1, False) == Reclaimer(machine, store).reclaim(1000)
    assert 0 == subkeys(store)


@pytest.mark.form(Form.FRAGMENTS)
def test_a_string_in_fragments_counts_its_fragments(store: WatchedStore, machine: Machine) -> None:
    """Of 200 KiB there are 50; most of them may be zeros, without a record."""
    send(machine, "SETBIT s 1638399 1", "DEL s")

    assert (1, 50, 0, False) == Reclaimer(machine, store).reclaim(1000)
    assert 0 == subkeys(store)


def test_a_slice_is_bounded(store: WatchedStore, machine: Machine) -> None:
    """It ends with the collection in which it has looked at enough; the next one goes on behind it.

    At the end there is one more look at the clock's millisecond, in which something may have died behind the walk.
    """
    send(machine, *(f"RPUSH l{n} a b c d e f g h" for n in range(10)), "DEL " + " ".join(f"l{n}" for n in range(10)))
    slices = reclaim_all(Reclaimer(machine, store), store, 40)

    assert [(3, 24), (3, 24), (3, 24), (1, 8), (0, 0)] == [(found.graves, found.records) for found in slices]
    assert [True, True, True, True, False] == [found.more for found in slices]


def test_nothing_to_do_writes_nothing(store: WatchedStore, machine: Machine) -> None:
    """Without graves a slice is a look, and leaves no cursor."""
    send(machine, "SADD s a")
    batches = len(store.batches)

    assert (0, 0, 0, False) == Reclaimer(machine, store).reclaim(1000)
    assert batches == len(store.batches)


def test_uncommitted_changes_are_in_the_way(store: WatchedStore, machine: Machine) -> None:
    """Between the records of a batch nothing is reclaimed."""
    apply(machine, event(0, "SADD s a"))

    with pytest.raises(ValueError, match="commit them, then reclaim"):
        Reclaimer(machine, store).reclaim(1000)


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_name_that_lives_again_keeps_its_elements(store: WatchedStore, machine: Machine) -> None:
    """Only the records of the dead version go, by points or by a range, in every column family."""
    members = " ".join(f"{n} m{n}" for n in range(1500))
    send(machine, f"ZADD z {members}", "HSETEX h PX 9000 FIELDS 1 a 1", "DEL z h")
    send(machine, f"ZADD z {members}", "HSETEX h PX 9000 FIELDS 1 a 2")
    before = digest(store, layout_of(), NOW_MS)
    reclaim_all(Reclaimer(machine, store), store)

    assert before == digest(store, layout_of(), NOW_MS)
    assert [1500, [(b"m7", 7.0)], b"2"] == send(machine, "ZCARD z", "ZRANGE z 7 7 WITHSCORES", "HGET h a")


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL"])
def test_records_that_a_flush_took_are_none_to_delete(store: WatchedStore, machine: Machine, flush: str) -> None:
    """A grave outlives the flush of its records; it goes, and what was written under the same names since stays."""
    many = " ".join(f"m{n}" for n in range(1500))
    send(machine, f"SADD many {many}", "SADD few a b", "DEL many few", flush, f"SADD many {many}", "SADD few a b")
    send(machine, flush, f"SADD many {many}", "SADD few a b")

    assert 2 == sum(found.graves for found in reclaim_all(Reclaimer(machine, store), store))
    assert [1500, 2] == send(machine, "SCARD many", "SCARD few")
    assert 1502 == subkeys(store)


def test_what_is_staged_stays(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a version that nothing names yet are none of a grave, whatever died under that name before."""
    machine = open_machine(store)
    send(machine, "SADD source a b c d", "SADD copy x y", "DEL copy")
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    apply(machine, event(3, "COPY source copy"))
    monkeypatch.undo()
    machine = open_machine(store)  # the process died before the commit
    assert 4 + 2 + 4 == subkeys(store)
    reclaim_all(Reclaimer(machine, store), store)

    assert 4 + 4 == subkeys(store)
    assert [1, 4] == send(machine, "COPY source copy", "SCARD copy")
    assert 4 + 4 == subkeys(store)


@pytest.mark.damaging
def test_a_grave_of_what_is_alive_is_no_grave(store: WatchedStore, machine: Machine) -> None:
    """A damaged grave that names a living version deletes nothing; it is reported."""
    send(machine, "SADD s a")
    grave = pack_u64(NOW_MS) + pack_u64(metadata_of(store, b"s").version)
    put(store, GRAVEYARD_CF, (grave, b"\4" + pack_u64(1) + key_of(b"s")))

    with pytest.raises(CorruptionError, match="names a key that is alive; rebuild"):
        Reclaimer(machine, store).reclaim(1000)
    assert [1] == send(machine, "SCARD s")


# ---------------------------------------------------------------------------------------------------------- the cursor


def test_the_walk_goes_on_behind_what_it_has_reclaimed(store: WatchedStore, machine: Machine) -> None:
    """Also of a new reclaimer, it begins at the millisecond of the last grave: it crosses no tombstones before that."""
    for at_ms in range(5):
        send(machine, "SADD s a", "DEL s", at_ms=NOW_MS + at_ms)
    Reclaimer(machine, store).reclaim(1000)

    assert pack_u64(NOW_MS + 4) == store.getter(LOCAL_CF)(CURSOR)
    assert pack_u64(NOW_MS + 4) == reclaim.read_cursor(store)


def test_more_may_die_in_the_millisecond_of_the_walk(store: WatchedStore, machine: Machine) -> None:
    """A collection with a lower version, which dies in the same millisecond behind the walk, is found all the same.

    The clock moves on before the walk ends, and the process dies: the cursor has not passed it.
    """
    send(machine, "SADD first a", *(f"SADD s{n} a" for n in range(6)), "DEL " + " ".join(f"s{n}" for n in range(6)))
    reclaimer = Reclaimer(machine, store)
    assert (2, True) == (reclaimer.reclaim(20).graves, True)
    send(machine, "DEL first")
    send(machine, "SADD s0 a", "DEL s0", at_ms=NOW_MS + 1)
    assert 3 == reclaimer.reclaim(30).graves
    for found in (reclaimer, Reclaimer(machine, store)):
        slices = reclaim_all(found, store, 20)

    assert {} == family(store, GRAVEYARD_CF)
    assert 0 == subkeys(store)
    assert slices[-1].more is False


def test_what_a_sweep_buries_behind_the_walk_is_found_without_an_event(store: WatchedStore, machine: Machine) -> None:
    """The clock of an idle partition stands still: what expired in its last millisecond goes all the same."""
    for name, expire_ms in (("first", 2), ("second", 1)):
        send(machine, *(f"SADD {name}{n} a" for n in range(10)))
        send(machine, *(f"PEXPIREAT {name}{n} {NOW_MS + expire_ms}" for n in range(10)))
    send(machine, "TICK", at_ms=NOW_MS + 9)
    sweeper, reclaimer = Sweeper(machine, store), Reclaimer(machine, store)
    assert (True, True) == (sweeper.expire(10).more, reclaimer.reclaim(30).more)
    assert sweeper.expire(10).more is False
    reclaim_all(reclaimer, store, 30)

    assert {} == family(store, GRAVEYARD_CF)


def test_a_new_walk_finds_what_died_behind_the_last_one(store: WatchedStore, machine: Machine) -> None:
    """The same, when the process dies in the middle of the walk."""
    send(machine, "SADD first a", *(f"SADD s{n} a" for n in range(6)), "DEL " + " ".join(f"s{n}" for n in range(6)))
    reclaimer = Reclaimer(machine, store)
    reclaimer.reclaim(20)
    send(machine, "DEL first")
    send(machine, "SADD s0 a", "DEL s0", at_ms=NOW_MS + 1)
    reclaimer.reclaim(50)
    reclaim_all(Reclaimer(machine, store), store, 20)

    assert {} == family(store, GRAVEYARD_CF)


@pytest.mark.parametrize("seed", range(6))
def test_slices_between_batches_change_nothing_but_room(seed: int) -> None:
    """With slices of any size at random moments no audit finds anything, and what is left is the same."""
    draws = Random(seed)
    left, right = new_store(), new_store()
    machine, untouched = open_machine(left), open_machine(right)
    reclaimer = Reclaimer(machine, left)
    records = random_records(seed, 600)
    for start in range(0, len(records), 7):
        part = records[start : start + 7]
        feed(untouched, part, 7)
        feed(machine, part, 7)
        if draws.random() < 0.4:
            reclaimer.reclaim(draws.choice([1, 15, 60, 1000]))
            assert [] == list(Audit(left, HOME).violations())
        if draws.random() < 0.1:
            machine = open_machine(left)
            reclaimer = Reclaimer(machine, left)
    for each, store in ((machine, left), (untouched, right)):
        reclaim_all(Reclaimer(each, store), store)

    assert records_of(right) == records_of(left)
    assert {} == family(left, GRAVEYARD_CF)


class FailingStore(MemoryStore):
    """A store that fails at one write, before or after it happened."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.left: int | None = None
        self.after = False

    def write(self, changes: Changes) -> None:
        """Write, but for the one."""
        if self.left == 0 and not self.after:
            self.left = None
            raise OSError("the disk failed")
        super().write(changes)
        if self.left == 0:
            self.left = None
            raise OSError("the disk failed")
        if self.left is not None:
            self.left -= 1


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_loses_nothing(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write fails, done or not, an audit finds nothing, and a new process ends with the same records."""
    monkeypatch.setattr(reclaim, "POINTS_MAX", 3)

    timed = Form.FIELD_TIMES in layout_of().forms
    fields = "HSETEX h PX 9000 FIELDS 4" if timed else "HSET h"

    def dead() -> tuple[FailingStore, Machine]:
        store = FailingStore()
        machine = open_machine(store)
        send(machine, "SADD s a b", f"{fields} a 1 b 2 c 3 d 4", "RPUSH l a b c d e", "ZADD z 1 a")
        send(machine, "DEL s h", "SADD s c", at_ms=NOW_MS + 1)
        send(machine, "DEL l z", at_ms=NOW_MS + 2)
        return store, machine

    def clean(store: Store, machine: Machine) -> None:
        reclaimer = Reclaimer(machine, store)
        reclaim_all(reclaimer, store, 1)
        for deleted in reclaimer.ranges():
            reclaimer.compacted(deleted)

    whole, machine = dead()
    clean(whole, machine)
    expected = records_of(whole), family(whole, LOCAL_CF)
    failed = 0
    while True:
        store, machine = dead()
        store.left, store.after = failed, after
        try:
            clean(store, machine)
        except OSError:
            failed += 1
            assert [] == list(Audit(store, HOME).violations())
            clean(store, open_machine(store))
            assert expected == (records_of(store), family(store, LOCAL_CF))
        else:
            break

    ranges = 1 + timed + (not layout_of().differences)  # a hash without a count goes record by record
    assert 4 + ranges == failed
    assert [key_of(b"s")] == list(stored(store, Kind.METADATA))


def test_a_busy_store_is_tried_again(store: WatchedStore, machine: Machine) -> None:
    """A slice that was refused has not happened; the same reclaimer does it at the next call."""
    send(machine, "RPUSH l a", "DEL l")
    reclaimer = Reclaimer(machine, store)
    store.failures.append(StoreBusyError("behind"))
    with pytest.raises(StoreBusyError):
        reclaimer.reclaim(1000)

    assert (1, 1, 0, False) == reclaimer.reclaim(1000)


@pytest.mark.damaging
def test_a_cursor_that_cannot_be_read_is_damage(store: WatchedStore, machine: Machine) -> None:
    """It is not taken for a beginning."""
    put(store, LOCAL_CF, (CURSOR, b"1"))

    with pytest.raises(CorruptionError, match="cursor 31 cannot be read"):
        Reclaimer(machine, store)
