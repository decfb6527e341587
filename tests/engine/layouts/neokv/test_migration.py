"""A migration leaves what a state of `neokv` would have, whatever breaks it off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.apply.machine import Machine
from engine.cleaning.migration import Migration
from engine.errors import CorruptionError, StoreBusyError
from engine.layouts.records import earlier_keys
from engine.model import STRING
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from engine.tables.adoption import has_mark, open_layout
from engine.tables.system import read_home
from engine.values.encoding import pack_u64
from tests.engine.harness import NOW_MS, WatchedStore, open_machine, records_of, send
from tests.engine.stored import described
from tests.layouts import home_of

HOME = home_of()
OLD_HOME = replace(HOME, layout="neokv1")
STRINGS = 40
STATE = [
    *(f"SET {{t{number % 5}}}{number} v{number}" for number in range(STRINGS - 3)),
    *("SET due 1 PX 1", "SET late x PX 900000", "SETRANGE long 140000 x"),
    *("HSET h f v", "RPUSH l x y", "SADD e S", "ZADD z 1 S", "HSETEX timed PX 7000 FIELDS 1 f v", "SWAPDB 0 3"),
]


def phase1() -> WatchedStore:
    """A state of `neokv1`, in two databases."""
    store = WatchedStore()
    machine = Machine(store, OLD_HOME)
    send(machine, *STATE)
    send(machine, "SET other 1", "TICK", at_ms=NOW_MS + 5, db=3)
    store.batches.clear()
    return store


def left(store: MemoryStore) -> int:
    """How many strings are in an earlier record."""
    return sum(1 for _ in earlier_keys(store, open_layout(store, OLD_HOME), b""))


def migrate(store: WatchedStore, *, strings_max: int = 7, batches_max: int = 1000) -> int:
    """Migrate until the end, or until a process dies behind `batches_max` batches. Returns how many were moved."""
    migration, moved = Migration(Machine(store, HOME), store), 0
    for _ in range(batches_max):
        count = migration.step(strings_max)
        moved += count
        if not count:
            migration.finish()
            break
    return moved


def facts(store: MemoryStore) -> tuple[str, object, list[str]]:
    """The digest, the counts, and what the audit finds."""
    layout = open_layout(store, HOME)
    return (
        str(digest(store, layout, NOW_MS)),
        Machine(store, HOME).key_counts,
        list(map(str, Audit(store, HOME).violations())),
    )


def test_everything_is_moved_and_nothing_else_changes() -> None:
    """Each string has the record of `neokv`, long ones in fragments; digest and counts stay; the mark is gone."""
    store = phase1()
    before, position = facts(store), Machine(store, OLD_HOME).position
    assert (STRINGS + 1, False) == (left(store), has_mark(store))

    assert STRINGS + 1 == migrate(store)
    assert (before, 0, False, HOME) == (facts(store), left(store), has_mark(store), read_home(store))
    assert [] == before[2]
    strings = [metadata for metadata in described(store).values() if metadata.type == STRING]
    assert [140_001] == [metadata.size for metadata in strings if metadata.version]
    assert STRINGS + 1 == len(strings)
    assert replace(position, last_version=0) == replace(open_machine(store).position, last_version=0)
    assert open_machine(store).layout.earlier is None


def test_it_may_die_behind_any_batch() -> None:
    """Behind each of them the state is sound, has its digest and is read; the next run moves what is left, no more."""
    whole = phase1()
    migrate(whole)
    expected = facts(whole)

    for batches in range(len(whole.batches)):
        store = phase1()
        moved = migrate(store, batches_max=batches)
        assert expected == facts(store)
        assert STRINGS + 1 - moved == left(store)
        assert STRINGS + 1 - moved == migrate(store)
        assert records_of(whole) == records_of(store)
        assert not has_mark(store)


def test_each_batch_moves_whole_strings() -> None:
    """Every record that it deletes in `data` is one whose string it writes, in the same batch."""
    store = phase1()
    migrate(store)

    for batch in store.batches:
        deleted = {key[:-1] for key, value in batch.values.get("data", {}).items() if value is None}
        assert deleted == set(batch.values.get("metadata", {}))


def test_a_busy_store_is_asked_again() -> None:
    """What was refused is moved by the next step."""
    store = phase1()
    migration = Migration(Machine(store, HOME), store)
    store.failures.append(StoreBusyError("busy"))
    with pytest.raises(StoreBusyError):
        migration.step(7)

    assert 7 == migration.step(7)
    assert STRINGS + 1 - 7 == left(store)
    with pytest.raises(ValueError, match="may be left"):
        migration.finish()


def test_long_strings_make_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends when it has read much, so memory does not grow with the values."""
    monkeypatch.setattr("engine.cleaning.migration._VALUE_BYTES_MAX", 1000)
    store = phase1()
    send(Machine(store, OLD_HOME), *(f"SET {name} {'x' * 600}" for name in "abcd"), db=5)

    assert STRINGS + 1 + 4 == migrate(store, strings_max=1000)
    assert 4 < len(store.batches)


def test_a_state_without_strings_changes_its_name_alone() -> None:
    """It is one of `neokv` from then on, and has no mark."""
    store = WatchedStore()
    send(Machine(store, OLD_HOME), "HSET h f v")

    assert 0 == migrate(store)
    assert (HOME, False) == (read_home(store), has_mark(store))


@pytest.mark.damaging
def test_damage_stops_it() -> None:
    """A string that is there twice, or cannot be read, is never passed by: the mark stays, and so does what is left."""
    for value, error in ((pack_u64(0) + b"twice", "in two forms"), (b"short", "metadata value")):
        store = phase1()
        migrate(store, batches_max=1)
        changes = Changes()
        of = "metadata" if error == "in two forms" else "data"
        name = next(key for key in earlier_keys(store, open_layout(store, HOME), b""))
        changes.of(of)[name if of == "metadata" else name + b"S"] = b"\x81" + value if of == "metadata" else value
        store.write(changes)
        before = left(store)

        with pytest.raises(CorruptionError, match=error):
            migrate(store)
        assert (before, True) == (left(store), has_mark(store))
