"""Idempotency keys past their window, and sessions that lost a watch long ago, are deleted."""

from __future__ import annotations

import pytest

from engine.apply.machine import Machine
from engine.batch import staging
from engine.cleaning import sweep
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.limits import WATCH_LOST_MS_MAX
from engine.store.store import LOCAL_CF, SYSTEM_CF
from engine.values.replies import OK
from tests.engine.harness import NOW_MS, WatchedStore, apply, event, family, open_machine, records_of, send


@pytest.fixture
def store() -> WatchedStore:
    """An empty store."""
    return WatchedStore()


def test_idempotency_keys_go_once_no_lookup_reaches_them(store: WatchedStore) -> None:
    """By whole days; the newest four that have any stay. With nothing to do nothing is written."""
    day_ms = 24 * 60 * 60 * 1000
    start_ms = NOW_MS // day_ms * day_ms
    machine = open_machine(store)
    for day in (0, 1, 3, 4, 6, 7):
        apply(machine, event(day, "INCR n", at_ms=start_ms + day * day_ms, event_id=b"day %d" % day))
        machine.commit(None)
    sweeper = Sweeper(machine, store)

    assert (2, 0, False) == sweeper.forget()
    assert [b"day 3", b"day 4", b"day 6", b"day 7"] == [key[4:] for key in family(store, "dedup")]
    batches = len(store.batches)
    assert [(0, 0, False)] * 2 == [sweeper.forget(), Sweeper(open_machine(store), store).forget()]
    assert batches == len(store.batches)


@pytest.mark.parametrize("forgets", [False, True])
def test_forgetting_a_session_changes_no_outcome(store: WatchedStore, forgets: bool) -> None:
    """One that lost a watch a day ago, and watches again: as if it had never lost, whether it was forgotten or not."""
    machine = open_machine(store)
    session, hour_ms = b"session of ann..", 60 * 60 * 1000

    def watching(offset: int, name: bytes, args: list[bytes], ms: int) -> object:
        record = (offset, NOW_MS + ms, name, args, 0, None, session)
        outcome = machine.apply([record], offset, waiting=[offset]).outcomes[offset]
        machine.commit(None)
        return outcome

    watching(0, b"WATCH", [b"k"], 0)
    send(machine, "SET k 1")
    outcomes, counts = [], []
    for offset, hours in ((2, 23), (3, 25)):
        outcomes.append(watching(offset, b"WATCH", [b"other"], hours * hour_ms))
        counts.append(Sweeper(machine, store).forget().sessions if forgets else 0)
    steps: list[object] = [[b"GET", b"k"]]
    outcomes.append(watching(4, b"EXEC", steps, 25 * hour_ms))  # type: ignore[arg-type]

    assert [OK, OK, [b"1"]] == outcomes
    assert [0, 0] == counts
    assert [] == [name for name in family(store, SYSTEM_CF) if name.startswith(b"watch/")]


def test_a_session_that_never_came_back_is_forgotten(store: WatchedStore) -> None:
    """A day after it lost, and an EXEC of it does nothing then as before."""
    machine = open_machine(store)
    session, day_ms = b"session of ann..", 24 * 60 * 60 * 1000
    apply(machine, (0, NOW_MS, b"WATCH", [b"k"], 0, None, session))
    send(machine, "SET k 1", "TICK")
    send(machine, "TICK", at_ms=NOW_MS + day_ms)
    kept = Sweeper(machine, store).forget()
    send(machine, "TICK", at_ms=NOW_MS + day_ms + 1)

    assert (0, 0, False) == kept
    assert (0, 1, False) == Sweeper(machine, store).forget()
    assert [] == [name for name in family(store, SYSTEM_CF) if name.startswith(b"watch/")]


def lose(machine: Machine, sessions: int, at_ms: int) -> None:
    """Let so many sessions, each at a time of its own, lose a watch."""
    for n in range(sessions):
        offset = machine.next_offset
        apply(machine, (offset, at_ms + n, b"WATCH", [b"k"], 0, None, b"session %08d" % n))
        apply(machine, event(offset + 1, "SET k 1", at_ms=at_ms + n))
    machine.commit(None)


def lost(store: WatchedStore) -> list[bytes]:
    """The records of sessions that have lost."""
    return [name for name in family(store, SYSTEM_CF) if name.startswith(b"watch/")]


def test_sessions_are_forgotten_in_slices(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, a slice forgets a bounded number of them, and says when more are left."""
    monkeypatch.setattr(sweep, "SESSIONS_MAX", 2)
    machine = open_machine(store)
    lose(machine, 5, NOW_MS)
    send(machine, "TICK", at_ms=NOW_MS + 2 * WATCH_LOST_MS_MAX)
    sweeper, batches = Sweeper(machine, store), len(store.batches)

    assert [(0, 2, True), (0, 2, True), (0, 1, False)] == [sweeper.forget() for _ in range(3)]
    forgotten = [list(batch.of(SYSTEM_CF).values()).count(None) for batch in store.batches[batches:]]
    assert [2, 2, 1] == forgotten
    assert [] == lost(store)


def test_a_full_clean_forgets_all_sessions(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slice by slice, and counts them, each slice at once: a store that is busy with the next one loses no count."""
    monkeypatch.setattr(sweep, "SESSIONS_MAX", 2)
    machine = open_machine(store)
    lose(machine, 5, NOW_MS)
    send(machine, "TICK", at_ms=NOW_MS + 2 * WATCH_LOST_MS_MAX)
    told: list[int] = []

    assert 5 == clean_all(machine, store, lambda gone: told.append(gone.sessions)).sessions
    assert [2, 4, 5] == sorted(set(told) - {0})
    assert [] == lost(store)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_watch_forgets_the_sessions_that_lost_first(store: WatchedStore, restarts: bool) -> None:
    """Those of one moment together, so that the same ones are left whenever the state was opened."""
    machine = open_machine(store)
    for n in (3, 1, 2):
        apply(machine, (machine.next_offset, NOW_MS, b"WATCH", [b"k"], 0, None, b"session %08d" % n))
    send(machine, "SET k 1")
    lose(machine, 1, NOW_MS + 1)
    if restarts:
        machine = open_machine(store)
    session = b"session of ann.."
    for n, left in ((0, [b"session 00000000"]), (1, [])):
        record = (machine.next_offset, NOW_MS + 2 * WATCH_LOST_MS_MAX + n, b"WATCH", [b"other"], 0, None, session)
        apply(machine, record)
        machine.commit(None)
        assert [b"watch/" + name for name in left] == lost(store)[: len(left)]
        assert len(left) + 1 == len(lost(store))


def test_what_was_staged_for_nothing_goes(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is skipped may be the last one: what it had staged needs no other record to go."""
    machine = open_machine(store)
    send(machine, "SADD s a b c d")
    before = records_of(store)
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    apply(machine, event(1, "COPY s copy"))
    machine = open_machine(store)  # the process died before the commit
    assert before != records_of(store)
    Sweeper(machine, store).forget()

    assert before == records_of(store)
    assert [] == [name for name in family(store, LOCAL_CF) if name.startswith(staging.MARK)]
