"""SETCLOCK: a partition's clock goes back, nothing comes back to life, and nothing is applied twice."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from engine.apply.machine import Machine
from engine.cleaning.all import clean_all
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.errors import CommandError, DueLeftError, PartitionStoppedError
from engine.layouts.layout import Form
from engine.limits import DEDUP_WINDOW_MS
from engine.proof.audit.audit import Audit
from engine.proof.digest import digest
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.values.replies import OK
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, apply, event, family, new_store, open_machine, send, shape
from tests.layouts import layout_of
from tests.model import Model

DAY_MS = DEDUP_WINDOW_MS
YEARS_MS = 10 * 365 * DAY_MS
AHEAD_MS = NOW_MS + YEARS_MS
LAYOUT = layout_of()


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


def sweep(machine: Machine, store: MemoryStore, keys_max: int = 1000) -> None:
    """Remove all that is due."""
    sweeper = Sweeper(machine, store)
    while sweeper.expire(keys_max).more:
        pass


def set_back(machine: Machine, store: MemoryStore, to_ms: int = NOW_MS) -> object:
    """As a worker does: sweep, then apply the event."""
    sweep(machine, store)
    return send(machine, f"SETCLOCK {machine.clock_ms} {to_ms}", at_ms=to_ms)[0]


def violations(store: MemoryStore) -> list[str]:
    """What the audit finds."""
    return [str(violation) for violation in Audit(store, HOME).violations()]


def test_the_clock_goes_back_and_on(store: MemoryStore) -> None:
    """It stands at the given time, times to live count from there, and the next record moves it."""
    machine = open_machine(store)
    send(machine, "SET k v", "SET lock mine PX 5000")
    send(machine, "TICK", at_ms=AHEAD_MS)

    assert OK == set_back(machine, store)
    assert (NOW_MS, NOW_MS) == (machine.clock_ms, open_machine(store).clock_ms)
    assert [OK, 5000, None] == send(machine, "SET new v PX 5000", "PTTL new", "GET lock")
    send(machine, "TICK", at_ms=NOW_MS + 5000)
    assert [None, b"v"] == [machine.read(b"GET", [b"new"]), machine.read(b"GET", [b"k"])]
    assert [] == violations(store)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("SETCLOCK {before} {to}", "ERR the partition's clock stands at {now} ms, not at {before}"),
        ("SETCLOCK {now} {now}", "ERR a partition's clock can only be set back"),
        ("SETCLOCK {now} {after}", "ERR a partition's clock can only be set back"),
        ("SETCLOCK {now} -1", "ERR a time is not an integer of milliseconds since 1970"),
        ("SETCLOCK {now} soon", "ERR a time is not an integer of milliseconds since 1970"),
    ],
)
def test_what_does_not_fit_changes_nothing(store: MemoryStore, line: str, error: str) -> None:
    """Who does not know where the clock stands, or would set it ahead, is refused: a rejection as of any command."""
    machine = open_machine(store)
    send(machine, "SET k v PX 1000")
    send(machine, "TICK", at_ms=AHEAD_MS)
    numbers = {"now": AHEAD_MS, "before": AHEAD_MS - 1, "after": AHEAD_MS + 1, "to": NOW_MS}
    (refused,) = send(machine, line.format(**numbers))

    assert isinstance(refused, CommandError)
    assert error.format(**numbers) == refused.message
    assert AHEAD_MS == machine.clock_ms


def test_it_is_applied_once(store: MemoryStore) -> None:
    """A second delivery finds the clock elsewhere."""
    machine = open_machine(store)
    send(machine, "TICK", at_ms=AHEAD_MS)
    line = f"SETCLOCK {AHEAD_MS} {NOW_MS}"

    assert [OK, True] == [
        send(machine, line)[0],
        isinstance(send(machine, line, at_ms=NOW_MS + 7)[0], CommandError),
    ]
    assert NOW_MS + 7 == machine.clock_ms


@pytest.mark.parametrize(
    "before", [["SET k v PX 1000", "TICK"], ["HSET h f v g w", "HPEXPIRE h 1000 FIELDS 1 f"], ["TICK"]]
)
def test_what_is_due_has_to_go_first(store: MemoryStore, before: list[str]) -> None:
    """With a key or a field that is due the event stops, nothing of it applied; swept, it goes through."""
    machine = open_machine(store)
    send(machine, *before)
    send(machine, "TICK", at_ms=AHEAD_MS)
    due = len(list(family(store, "expiry")))
    if due:
        with pytest.raises(PartitionStoppedError) as stopped:
            send(machine, f"SETCLOCK {AHEAD_MS} {NOW_MS}")
        assert isinstance(stopped.value.__cause__, DueLeftError)
        assert AHEAD_MS == machine.clock_ms

    assert OK == set_back(machine, store)
    assert [] == violations(store)


def test_it_stands_first_in_its_batch(store: MemoryStore) -> None:
    """What a record before it has changed may be due at the old clock and is in no index yet: it is committed first."""
    machine = open_machine(store)
    with pytest.raises(PartitionStoppedError) as stopped:
        apply(machine, event(0, "SET k v PX 1"), event(1, "TICK", at_ms=AHEAD_MS), event(2, f"SETCLOCK {AHEAD_MS} 5"))

    assert (2, DueLeftError) == (stopped.value.offset, type(stopped.value.__cause__))


def lived(clean: Callable[[Machine, MemoryStore, int], None]) -> tuple[MemoryStore, list[object]]:
    """A partition with all that time rules, whose clock leaps twice and is set back; `clean` is called in between."""
    store = new_store()
    machine = open_machine(store)
    session = b"session of ann.."
    offsets = itertools.count()
    outcomes: list[object] = []

    def one(line: str, at_ms: int, event_id: bytes | None = None, session: bytes | None = None) -> None:
        offset = next(offsets)
        name, *args = line.encode().split(b" ")
        if name == b"SETCLOCK":
            sweep(machine, store, 1)
        applied = apply(machine, (offset, at_ms, name, args, 0, event_id, session))
        machine.commit(FINGERPRINT)
        outcomes.append(applied.outcomes[offset])
        clean(machine, store, offset)

    for leap in range(2):
        now = NOW_MS + leap * 1000
        for day in range(5):
            one("INCR n", now - (5 - day) * DAY_MS, b"day %d" % day) if not leap else None
        one("RPUSH dies 1 2 3", now)
        one("PEXPIRE dies 5000", now)
        one("HSET h f 1 g 2", now)
        one("HPEXPIRE h 5000 FIELDS 1 f", now)
        one("INCR n", now, b"before %d" % leap)
        one("WATCH n", now, None, session)
        one("INCR n", now + YEARS_MS, b"during %d" % leap)
        one("RPUSH gone 1 2 3", now + YEARS_MS)
        one("DEL gone", now + YEARS_MS + 1)
        one("INCR n", now + YEARS_MS + 2, b"before %d" % leap)
        one(f"SETCLOCK {now + YEARS_MS + 2} {now + 10}", now + 10)
        one("GET dies", now + 11)
        one("HGETALL h", now + 11)
        one("INCR n", now + 12, b"before %d" % leap)
        one("INCR n", now + 12, b"during %d" % leap)
        one("INCR n", now + 12, b"day 4")
        one("RPUSH again 1 2 3", now + 13)
        one("PEXPIRE again 100", now + 13)
        one("TICK", now + 500)
    return store, outcomes


def digest_and_records(store: MemoryStore) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """The digest, and every record after a full clean."""
    machine = open_machine(store)
    shown = str(digest(store, LAYOUT, machine.clock_ms))
    clean_all(machine, store)
    return shown, list(raw_records(store, LAYOUT))


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_cleaning_makes_no_difference(every: int) -> None:
    """However often it is cleaned, or never: the same outcomes and digest, and after a full clean the same bytes."""
    cleaners: dict[int, tuple[Sweeper, Reclaimer]] = {}

    def clean(machine: Machine, store: MemoryStore, offset: int) -> None:
        if offset % every:
            return
        sweeper, reclaimer = cleaners.setdefault(id(store), (Sweeper(machine, store), Reclaimer(machine, store)))
        sweeper.expire(1)
        sweeper.forget()
        reclaimer.reclaim(1)

    never, outcomes = lived(lambda machine, store, offset: None)
    often, others = lived(clean)

    assert [] == violations(never) + violations(often)
    assert list(map(shape, outcomes)) == list(map(shape, others))
    assert digest_and_records(never) == digest_and_records(often)
    assert [] == violations(never) + violations(often)


def test_an_id_is_never_applied_twice(store: MemoryStore) -> None:
    """Neither one from before the leap, nor one from under the wrong clock, for a day after it was set back."""
    machine = open_machine(store)

    def incr(event_id: bytes, at_ms: int) -> object:
        offset = machine.next_offset
        outcome = apply(machine, event(offset, "INCR n", at_ms=at_ms, event_id=event_id)).outcomes[offset]
        machine.commit(FINGERPRINT)
        Sweeper(machine, store).forget()
        return outcome

    first = [incr(b"yesterday", NOW_MS - DAY_MS + 60_000), incr(b"before", NOW_MS)]
    during = [incr(b"during", AHEAD_MS), incr(b"later", AHEAD_MS + DAY_MS - 60_000)]
    set_back(machine, store, NOW_MS + 1000)
    again = [incr(each, NOW_MS + 2000) for each in (b"yesterday", b"before", b"during", b"later")]
    set_back_again = [incr(b"later", NOW_MS + 1000 + DAY_MS - 1), incr(b"later", NOW_MS + 1000 + DAY_MS)]

    assert [1, 2, 3, 4] == [*first, *during]
    assert [1, 2, 3, 4] == again
    assert [4, 5] == set_back_again


@pytest.mark.parametrize(
    ("apart_ms", "is_known"),
    [(0, True), (DAY_MS - 1, True), (DAY_MS, False), (1 - DAY_MS, True), (-DAY_MS, False)],
)
@pytest.mark.parametrize("hour", range(0, 24, 6))
def test_an_id_from_under_the_wrong_clock_is_known_when_it_leaps_there_again(
    store: MemoryStore, apart_ms: int, is_known: bool, hour: int
) -> None:
    """At less than a day from its time, before or after, wherever in a bucket that is; the model says the same."""
    machine, model = open_machine(store), Model()
    wrong_ms = AHEAD_MS + hour * 3_600_000

    def incr(at_ms: int, event_id: bytes | None) -> object:
        model.apply(at_ms, b"INCRBY", [b"n", b"1"], 0, event_id)
        offset = machine.next_offset
        outcome = apply(machine, event(offset, "INCRBY n 1", at_ms=at_ms, event_id=event_id)).outcomes[offset]
        machine.commit(FINGERPRINT)
        return outcome

    assert [1, 2] == [incr(wrong_ms, b"once"), incr(wrong_ms + DAY_MS, None)]
    model.apply(NOW_MS, b"SETCLOCK", [b"%d" % machine.clock_ms, b"%d" % NOW_MS])
    set_back(machine, store)
    assert 3 == incr(NOW_MS + DAY_MS, None)

    assert (1 if is_known else 4) == incr(wrong_ms + apart_ms, b"once")
    assert [int(is_known), model.digest()] == [model.duplicates, digest(store, LAYOUT, machine.clock_ms)]
    assert [] == violations(store)


def test_a_watch_is_lost(store: MemoryStore) -> None:
    """Nobody can say how old it is; a session that watches again afterwards is as any."""
    machine = open_machine(store)
    session = b"session of ann.."

    def say(name: bytes, args: list[object], at_ms: int) -> object:
        offset = machine.next_offset
        outcome = machine.apply([(offset, at_ms, name, args, 0, None, session)], offset, waiting=[offset]).outcomes[
            offset
        ]
        machine.commit(FINGERPRINT)
        return outcome

    say(b"WATCH", [b"k"], AHEAD_MS)
    set_back(machine, store)
    lost = say(b"EXEC", [[b"SET", b"k", b"1"]], NOW_MS + 1)
    say(b"WATCH", [b"k"], NOW_MS + 2)

    assert [b"OK"] != lost
    assert [] == violations(store)
    assert [OK] == say(b"EXEC", [[b"SET", b"k", b"1"]], NOW_MS + 3)


@pytest.mark.parametrize("key_cache_bytes", [0, 1 << 20])
def test_fields_that_die_afterwards_are_found(store: MemoryStore, key_cache_bytes: int) -> None:
    """A hash that lost fields at the old clock knows of one that dies sooner, in memory as from the store."""
    machine = Machine(store, HOME, key_cache_bytes=key_cache_bytes)
    send(machine, "HSETEX h PX 50000 FIELDS 1 lost v", "HSET h kept v")
    send(machine, "TICK", at_ms=AHEAD_MS)
    set_back(machine, store)
    send(machine, "HSETEX h PX 400 FIELDS 2 n x n x", at_ms=NOW_MS)
    send(machine, "TICK", at_ms=NOW_MS + 400)

    assert [-2, 2] == send(machine, "HINCRBY h n -2", "HLEN h", at_ms=NOW_MS + 400)
    assert [] == violations(store)


def test_versions_go_on(store: MemoryStore) -> None:
    """A collection made afterwards has a newer version than any before, though its clock is an older one."""
    machine = open_machine(store)
    send(machine, "RPUSH a 1", at_ms=AHEAD_MS)
    newest = machine.position.last_version
    set_back(machine, store)
    send(machine, "RPUSH b 1", "DEL b", "RPUSH b 2")

    assert newest + 2 == machine.position.last_version
    assert [] == violations(store)


def reclaim(reclaimer: Reclaimer, records_max: int = 100) -> None:
    """Until nothing is left."""
    while reclaimer.reclaim(records_max).more:
        pass


@pytest.mark.parametrize("opened_again", [False, True])
def test_what_dies_afterwards_is_reclaimed(store: MemoryStore, opened_again: bool) -> None:
    """The reclaimer stood at the wrong clock, beyond what dies from now on; it goes back with the clock."""
    machine = open_machine(store)
    send(machine, "RPUSH a 1", "DEL a", at_ms=AHEAD_MS)
    reclaimer = Reclaimer(machine, store)
    reclaim(reclaimer)
    set_back(machine, store)
    send(machine, "RPUSH b 1", "DEL b")
    send(machine, "TICK", at_ms=NOW_MS + 100)
    assert [] == violations(store)
    reclaim(Reclaimer(open_machine(store), store) if opened_again else reclaimer)

    assert {} == family(store, "graveyard")


@pytest.mark.parametrize("opened_again", [False, True])
def test_a_reclaimer_in_the_middle_of_old_graves_misses_no_new_one(store: MemoryStore, opened_again: bool) -> None:
    """Those from under the wrong clock stand behind those of now: a slice that ends among them comes back."""
    machine = open_machine(store)
    send(machine, "RPUSH a 1", "RPUSH b 1", "DEL a", "DEL b", at_ms=AHEAD_MS)
    set_back(machine, store)
    reclaimer = Reclaimer(machine, store)
    assert reclaimer.reclaim(1).more
    send(machine, "RPUSH c 1", "DEL c", at_ms=NOW_MS + 1)
    send(machine, "TICK", at_ms=NOW_MS + 100)
    reclaim(Reclaimer(open_machine(store), store) if opened_again else reclaimer)

    assert {} == family(store, "graveyard")


def test_a_sweeper_that_was_ahead_sweeps_on(store: MemoryStore) -> None:
    """One that has walked up to the wrong clock finds what is due by the right one, without being made anew."""
    machine = open_machine(store)
    send(machine, "SET k v PX 10", "TICK")
    send(machine, "TICK", at_ms=AHEAD_MS)
    sweeper = Sweeper(machine, store)
    assert 1 == len(sweeper.expire(10).keys)
    assert not sweeper.expire(10).more
    set_back(machine, store)
    send(machine, "SET k v PX 10")
    send(machine, "TICK", at_ms=NOW_MS + 10)

    assert [(0, b"k")] == sweeper.expire(10).keys
    assert {} == family(store, "expiry")


def test_idempotency_keys_from_afterwards_go_in_their_time(store: MemoryStore) -> None:
    """The cursor behind which none are left stood at the wrong clock; those that come below it go when they are old."""
    machine = open_machine(store)

    def remember(at_ms: int) -> None:
        apply(machine, event(machine.next_offset, "TICK", at_ms=at_ms, event_id=b"%d" % at_ms))
        machine.commit(FINGERPRINT)

    for day in range(6):
        remember(AHEAD_MS + day * DAY_MS)
    assert 2 == Sweeper(machine, store).forget().dedup_buckets
    set_back(machine, store)
    for day in range(6):
        remember(NOW_MS + day * DAY_MS)

    assert 2 == Sweeper(machine, store).forget().dedup_buckets


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_field_that_dies_before_those_that_were_swept(store: MemoryStore) -> None:
    """A time to live that a field gets after SETCLOCK ends, though a sweep had come further in the hash."""
    machine = open_machine(store)
    send(machine, "HSET h a 1 b 1 c 1", "HPEXPIRE h 100 FIELDS 1 b", at_ms=AHEAD_MS)
    send(machine, "TICK", at_ms=AHEAD_MS + 1000)
    set_back(machine, store)

    send(machine, "HPEXPIRE h 100 FIELDS 1 a", at_ms=NOW_MS + 1)
    send(machine, "TICK", at_ms=NOW_MS + 1000)
    sweep(machine, store)
    assert [] == violations(store)
    assert [1, None, b"1"] == [machine.read(b"HLEN", [b"h"]), *machine.read(b"HMGET", [b"h", b"a", b"c"])]
