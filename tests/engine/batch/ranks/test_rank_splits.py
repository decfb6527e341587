"""Blocks of a large sorted set are split by few reads, and the scores of their halves are held."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.batch.ranks import rank_counts
from engine.errors import CorruptionError
from engine.layouts.layout import Form
from engine.store.store import Changes
from tests.consistency import problems
from tests.engine.batch.ranks.noted_store import NotedStore
from tests.engine.harness import HOME, send


@pytest.mark.form(Form.RANK_COUNTS)
def test_a_block_that_the_batch_has_changed_is_split_without_a_scan() -> None:
    """What is stored is read by one call, and what the batch has added, moved, deleted and put back is worked in."""
    machine = Machine(store := NotedStore(), HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(600)))
    store.scans = 0
    store.starts.clear()
    additions = " ".join(f"{n}.5 new{n}" for n in range(100))

    changes = "ZREM z m7", "ZADD z 7 m7", "ZREM z m8 m9", "ZADD z 20.25 m10", f"ZADD z {additions}", "ZREM z new3"
    assert [1, 1, 2, 0, 100, 1] == send(machine, *changes)
    assert 0 == store.scans
    assert len(store.starts) > 0
    expected = sorted(
        [(float(n), f"m{n}") for n in range(600) if n not in (8, 9, 10)]
        + [(20.25, "m10")]
        + [(n + 0.5, f"new{n}") for n in range(100) if n != 3]
    )
    assert list(range(len(expected))) == send(machine, *(f"ZRANK z {member}" for _, member in expected))
    assert [] == problems(store)


@pytest.mark.form(Form.RANK_COUNTS)
@pytest.mark.parametrize("same", [1, 5])
def test_a_block_whose_scores_are_held_is_not_read_to_be_split(same: int) -> None:
    """Of its score keys those are read that have the score in its middle. So many members have each score."""
    machine = Machine(store := NotedStore(), HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(600)))
    grown = [f"ZADD z {1000 + n // same} n{n:03}" for n in range(300)]
    send(machine, *grown[:150])
    store.starts.clear()
    store.scanned = 0

    send(machine, *grown[150:])
    assert 0 < store.scanned <= 4 * same
    assert [] == store.starts
    assert list(range(600, 900)) == send(machine, *(f"ZRANK z n{n:03}" for n in range(300)))
    assert [] == problems(store)


@pytest.mark.damaging
@pytest.mark.form(Form.RANK_COUNTS)
def test_a_block_that_lacks_records_is_not_split() -> None:
    """Where the store has lost the score key in the middle of a block, splitting it tells damage."""
    machine = Machine(store := NotedStore(), HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(600)))
    send(machine, *(f"ZADD z {1000 + n} n{n:03}" for n in range(150)))
    lost = Changes()
    lost.of(store.scores).update((key, None) for key, _ in store.scan(store.scores, b"", None) if b"n" == key[-4:-3])
    store.write(lost)

    with pytest.raises(CorruptionError):
        send(machine, *(f"ZADD z {1150 + n} n{n:03}" for n in range(150, 300)))


@pytest.mark.form(Form.RANK_COUNTS)
@pytest.mark.parametrize("scored_max", [rank_counts.SCORED_MAX, 24])
def test_halves_of_a_split_block_are_held(monkeypatch: pytest.MonkeyPatch, scored_max: int) -> None:
    """A set that has grown here need not be read: splits have read its blocks. Only where there is room."""
    monkeypatch.setattr(rank_counts, "SCORED_MAX", scored_max)
    store = NotedStore()
    machine = Machine(store, HOME)
    for first in range(0, 6000, 500):
        send(machine, "ZADD z " + " ".join(f"{n} m{n:04}" for n in range(first, first + 500)))
        assert machine._tx._families.rank_holders.scored <= scored_max
    store.starts.clear()

    assert [number * 59 for number in range(100)] == send(machine, *(f"ZRANK z m{59 * n:04}" for n in range(100)))
    assert (len(store.starts) < 12) is (scored_max > 24)  # the first blocks, made at once, and the last one
