"""The same log gives the same state: in any batch size, any store, any process, with keys cached or not."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from random import Random

import pytest

from engine.apply.machine import Record
from engine.errors import StoreBusyError
from engine.proof.digest import digest
from engine.store.rocks import RocksStore
from engine.store.store import Store
from tests.consistency import problems
from tests.engine.harness import FAMILIES, FINGERPRINT, WatchedStore, feed, new_store, open_machine, records_of, shape
from tests.engine.workload import random_records
from tests.layouts import layout_of

SEEDS = range(6)
COUNT = 1500


def outcome(store: Store, now_ms: int) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Digest and raw records of a state."""
    return str(digest(store, layout_of(), now_ms)), records_of(store)


def replay(records: list[Record], batch: int) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """The outcome of applying `records` to an empty store in memory in batches of `batch`."""
    store = new_store()
    machine = open_machine(store)
    feed(machine, records, batch)
    return outcome(store, machine.clock_ms)


@pytest.mark.parametrize("seed", SEEDS)
def test_batch_sizes_make_no_difference(seed: int) -> None:
    """One record at a time, seven, or all at once: the same digest and the same records, down to orphans and graves."""
    records = random_records(seed, COUNT)
    one_by_one = replay(records, 1)

    assert one_by_one == replay(records, 7)
    assert one_by_one == replay(records, COUNT)


@pytest.mark.parametrize("seed", SEEDS)
def test_outcomes_do_not_depend_on_batches(seed: int) -> None:
    """Every reply, dead letter, rejection and duplicate is the same whatever batch its record stands in."""
    records = random_records(seed, COUNT // 2)
    seen = []
    for batch in (1, 50, COUNT):
        machine = open_machine(new_store())
        outcomes: dict[int, str] = {}
        dead: list[tuple[int, str]] = []
        counts = [0, 0]
        for start in range(0, len(records), batch):
            applied = machine.apply(records[start : start + batch], machine.next_offset, waiting=range(1 << 62))
            machine.commit(FINGERPRINT)
            outcomes.update({offset: repr(shape(reply)) for offset, reply in applied.outcomes.items()})
            dead += applied.dead_letters
            counts = [counts[0] + applied.rejected, counts[1] + applied.duplicates]
        seen.append((outcomes, dead, counts))

    assert seen[0] == seen[1] == seen[2]
    assert all(seen[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_rocksdb_equals_memory(seed: int, tmp_path: Path) -> None:
    """The store in RocksDB, reopened half way, ends with the same records as the one in memory."""
    records = random_records(seed, COUNT // 2)
    half = len(records) // 2
    for part in (records[:half], records[half:]):
        store = RocksStore(tmp_path / "0", FAMILIES)
        machine = open_machine(store)
        feed(machine, part, 13)
        result = outcome(store, machine.clock_ms)
        store.close()

    assert replay(records, 40) == result


@pytest.mark.parametrize("seed", SEEDS)
def test_cached_keys_make_no_difference(seed: int) -> None:
    """Keys kept between batches, kept a few, or read anew each time: the same records."""
    records = random_records(seed, COUNT)
    results = []
    for key_cache_bytes in (0, 3000, 1 << 20):
        store = new_store()
        feed(open_machine(store, key_cache_bytes=key_cache_bytes), records, 5)
        results.append(records_of(store))

    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_mishaps_make_no_difference(seed: int) -> None:
    """Batches rolled back and applied again, busy stores, restarts and reads in between leave the same records."""
    records = random_records(seed, COUNT)
    random = Random(seed)
    store = WatchedStore()
    machine = open_machine(store, key_cache_bytes=random.choice([0, 2000, 1 << 20]))
    at = 0
    while at < len(records):
        part = records[at : at + random.randrange(1, 30)]
        machine.apply(part, machine.next_offset)
        machine.read(b"SMEMBERS" if random.random() < 0.5 else b"TYPE", [b"never there"], random.randrange(3))
        mishap = random.random()
        if mishap < 0.2:
            machine.rollback()
            at = next((n for n, record in enumerate(records) if record[0] >= machine.next_offset), 0)
            continue
        if mishap < 0.4:
            store.failures.append(StoreBusyError("a stall"))
            with pytest.raises(StoreBusyError):
                machine.commit(FINGERPRINT)
        elif mishap < 0.8:
            machine.commit(FINGERPRINT)
        if mishap > 0.75 and machine.next_offset == machine.position.next_offset:
            machine = open_machine(store)
        at += len(part)
    machine.commit(FINGERPRINT)

    assert replay(records, 40) == outcome(store, machine.clock_ms)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flushes", [True, False])
def test_every_state_keeps_the_rules(seed: int, flushes: bool) -> None:
    """Along the way sizes, expiry entries, graves, score index and counts agree with the records; no rule is broken."""
    store = new_store()
    machine = open_machine(store)
    records = random_records(seed, COUNT // 2, flushes=flushes)
    for start in range(0, len(records), 25):
        feed(machine, records[start : start + 25], 25)
        assert [] == problems(store)


def test_the_hash_seed_makes_no_difference() -> None:
    """Two processes whose sets and dicts hash differently reach the same digest and records."""
    program = "from tests.engine.apply.test_determinism import fingerprint; print(fingerprint())"
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert [fingerprint() + "\n"] * 2 == printed


def fingerprint() -> str:
    """A digest of the outcome of a few replays."""
    return blake2b(repr([replay(random_records(seed, 300), 30) for seed in range(3)]).encode()).hexdigest()
