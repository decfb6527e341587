"""The audit names each kind of damage, and finds nothing in an intact state."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from engine.batch import staging
from engine.model import Metadata
from engine.proof.audit import KINDS, Audit, Violation, walk
from engine.store.store import DEDUP_CF, EXPIRY_CF, GRAVEYARD_CF, LOCAL_CF, SYSTEM_CF, Store
from engine.tables.system import Home, read_home
from engine.values.encoding import pack_u64, prefix_end
from slotlog.shared.slots import slot
from tests.consistency import problems
from tests.engine.harness import FAMILIES, HOME, NOW_MS, apply, event, family, feed, new_store, open_machine, send
from tests.engine.proof.damage import OF_STRING_METADATA, PLANTS, one_version
from tests.engine.proof.damage_of_forms import OF_FORMS
from tests.engine.proof.lived import DATA, LAYOUT, METADATA, SESSIONS, grave_of, key_of, lived
from tests.engine.stored import put
from tests.engine.workload import random_records
from tests.layouts import home_of, layout_of
from tests.layouts.differences import is_uncounted


def audit(store: Store, home: Home = HOME) -> list[Violation]:
    """Everything that is wrong."""
    return list(Audit(store, home).violations())


def test_a_good_state_has_nothing_to_report() -> None:
    """A state with every form that there is: no violation."""
    store = lived()

    assert [] == audit(store)
    assert all(family(store, name) for name in (*FAMILIES, SYSTEM_CF, EXPIRY_CF, GRAVEYARD_CF, DEDUP_CF))


OF_COUNTS = frozenset({"a size", "a member too few", "no elements", "more under a grave than died"})
"""Damage that is found by the count of a hash or set."""


@pytest.mark.parametrize(
    "damage", [pytest.param(name, marks=pytest.mark.exact) if name in OF_COUNTS else name for name in PLANTS]
)
@pytest.mark.damaging
def test_planted_damage_is_found(damage: str) -> None:
    """Each kind of damage is found and named, and nothing is said but what follows from it."""
    plant, expected = PLANTS[damage]
    store = lived()
    plant(store)

    assert ([], []) == differences(audit(store), expected)


def differences(found: list[Violation], expected: list[str]) -> tuple[list[str], list[str]]:
    """What was found and not expected, and the other way round."""
    texts, missed = list(map(str, found)), []
    for pattern in expected:
        text = next((text for text in texts if fnmatchcase(text, pattern + "*")), None)
        if text is None:
            missed.append(pattern)
        else:
            texts.remove(text)
    return texts, missed


def test_all_kinds_are_planted() -> None:
    """Every kind of violation that there is has a plant, and no other."""
    plants = {**PLANTS, **{name: plant for form in OF_FORMS for name, plant in OF_FORMS[form].items()}}
    planted = {text.partition(":")[0] for _, texts in plants.values() for text in texts}

    assert KINDS.keys() == planted


@pytest.mark.damaging
def test_all_plants_together_are_all_found() -> None:
    """One violation keeps no other one from being found: what damages different records is reported side by side."""
    alone = ["an orphan", "a size", "a hole", "a score record is gone", "an expiry entry of nothing"]
    alone += ["a grave that cannot be read"]
    of_forms = ["a block's count", "the soonest time", "zeros at the end of a fragment"]
    alone += [damage for damage in of_forms if damage in PLANTS]
    alone = [damage for damage in alone if not (is_uncounted() and damage in OF_COUNTS)]
    store = lived()
    for damage in alone:
        PLANTS[damage][0](store)
    expected = [text for damage in alone for text in PLANTS[damage][1]]

    assert ([], []) == differences(audit(store), expected)


@pytest.mark.damaging
def test_what_is_staged_belongs_to_its_mark() -> None:
    """Records of a version that is marked as not named yet are no orphans."""
    store = lived()
    prefix = LAYOUT.prefix(DATA, key_of(b"new"), 9)
    put(store, DATA, (prefix + b"f", b"v"))
    assert ["orphans"] == [violation.kind for violation in audit(store)]
    put(store, LOCAL_CF, (b"staged/" + pack_u64(9), key_of(b"new")))
    assert [] == audit(store)


def test_what_is_staged_before_the_first_batch_is_that_of_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of which nothing but a stage is written is judged as that of the partition asked for."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    home, store = home_of("topic", 1, 4), new_store()
    name = next(f"{{{n}}}" for n in range(99) if slot(b"%d" % n) // 4096 == 1)
    apply(open_machine(store, home), event(0, f"SADD {name} a b"), event(1, f"COPY {name} {name}d"))
    assert read_home(store) is None
    assert [*store.scan(LOCAL_CF, staging.MARK, prefix_end(staging.MARK))]
    assert [] == problems(store, home)


@pytest.mark.damaging
def test_a_clustered_partition_has_its_own_keys_alone() -> None:
    """Of several partitions, a key or a watch of another one is reported, and any database but 0."""
    home = home_of("topic", 1, 4)
    store = new_store()
    own = next(b"%d" % n for n in range(99) if slot(b"%d" % n) // 4096 == 1)
    foreign = next(b"%d" % n for n in range(99) if slot(b"%d" % n) // 4096 == 2)
    machine = open_machine(store, home)
    send(machine, f"SET {own.decode()} 1")
    assert [] == audit(store, home)
    layout = layout_of(1, 4)
    value = layout.pack_metadata(Metadata(1, 0))
    put(store, METADATA, (layout.metadata_key(0, slot(foreign), foreign), value))
    put(store, METADATA, (layout.metadata_key(1, slot(own), own), value))
    put(store, SYSTEM_CF, (b"watch/" + SESSIONS[0] + b"\0" + foreign, pack_u64(NOW_MS) + b"\1"))

    kinds = ["counts", "counts", "place", "place", "watches", *(2 * ["unreadable"] if OF_STRING_METADATA else [])]
    assert sorted(kinds) == sorted(violation.kind for violation in audit(store, home))


@pytest.mark.damaging
def test_an_empty_state_is_a_good_one() -> None:
    """Of a store to which nothing was written nothing is said; of records without a position, that it is not there."""
    store = new_store()
    assert [] == audit(store)
    put(store, METADATA, (key_of(b"s"), LAYOUT.pack_metadata(Metadata(1, 0))))
    assert 9 + 1 + len(OF_STRING_METADATA) == len(audit(store))


@pytest.mark.parametrize("seed", range(8))
def test_random_workloads_leave_nothing_to_report(seed: int) -> None:
    """Whatever commands, transactions, duplicates and dead letters led to it, a state has no violation."""
    store = new_store()
    feed(open_machine(store), random_records(seed, 800), 9)

    assert [] == problems(store)


@pytest.mark.parametrize("held_bytes", [1, 200, 10_000, 1_000_000])
def test_order_is_the_same_with_little_memory(held_bytes: int) -> None:
    """Records come in order and each once, in however many passes over their source."""
    items = [b"%d" % (number * 7919 % 1000) for number in range(1000)]
    passes: list[int] = []

    def source() -> list[bytes]:
        passes.append(1)
        return items

    assert sorted(items) == list(walk.in_order(source, held_bytes))
    assert (1 if held_bytes > 100_000 else 2) <= len(passes)


@pytest.mark.damaging
def test_little_memory_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With graves and versions read in many passes, a good state is good, and a lost grave is missed."""
    monkeypatch.setattr(walk, "HELD_BYTES", 100)
    store = lived()
    assert [] == audit(store)
    put(store, GRAVEYARD_CF, (grave_of(store, b"gone:e")[0], None))
    one_version(store)

    assert ["orphans", "versions"] == sorted(violation.kind for violation in audit(store))
