"""WATCH in the log: watches break and expire, and every replay decides as the first run did."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from engine.errors import CommandError, CorruptionError
from engine.limits import WATCH_LOST_MS_MAX, WATCH_MS_MAX, WATCHED_KEYS_MAX
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from engine.tables.system import Home
from engine.values.replies import NIL_ARRAY, OK
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, apply, family, new_store, open_machine, records_of
from tests.engine.workload import KEYS, random_records
from tests.layouts import home_of

ANN, BOB = b"ann".ljust(16), b"\xff" * 16

EXEC = "EXEC"
"""A transaction of one SET."""


class Clients:
    """One partition; every call is an event, waited for."""

    def __init__(self, store: MemoryStore, home: Home = HOME) -> None:
        self.store = store
        self.home = home
        self.machine = open_machine(store, home)
        self.now_ms = NOW_MS

    def say(
        self, line: str, session: bytes | None = None, *, after_ms: int = 0, db: int = 0, event_id: bytes | None = None
    ) -> Any:
        """The outcome of an event, for a dead letter its reason."""
        self.now_ms += after_ms
        offset = self.machine.next_offset
        name, *args = line.encode().split(b" ")
        commands: list[Any] = [[b"SET", b"done", b"1"]] if line == EXEC else args
        applied = apply(self.machine, (offset, self.now_ms, name, commands, db, event_id, session))
        return {**dict(applied.dead_letters), **applied.outcomes}[offset]

    def restart(self) -> None:
        """Commit and open the state again."""
        self.machine.commit(FINGERPRINT)
        self.machine = open_machine(self.store, self.home)


@pytest.fixture
def clients() -> Clients:
    """An empty partition."""
    return Clients(new_store())


# ------------------------------------------------------------------ holding and losing


def test_a_watch_holds_while_nothing_happens(clients: Clients) -> None:
    """Reads, refused commands and writes to other keys break no watch."""
    clients.say("SET k v")
    clients.say("WATCH k none", ANN)
    for line in ("GET k", "INCR k", "HSET k f v", "SET other v", "SETNX k w", "DEL none", "EXPIRE none 9", "TICK"):
        clients.say(line)

    assert [OK] == clients.say(EXEC, ANN)


@pytest.mark.parametrize("line", ["SET k v", "DEL k", "EXPIRE k 9", "APPEND k v", "SET none v", "MSET a 1 none 2"])
def test_a_watch_is_lost_when_its_key_is_modified(line: str, clients: Clients) -> None:
    """A write to any watched key, even with the same value: EXEC answers nil and runs nothing."""
    clients.say("SET k v")
    clients.say("WATCH k none", ANN)
    clients.say(line)

    assert NIL_ARRAY is clients.say(EXEC, ANN)
    assert None is clients.machine.read(b"GET", [b"done"])


@pytest.mark.parametrize("session", [ANN, BOB, None])
def test_whoever_writes_breaks_the_watch(session: bytes | None, clients: Clients) -> None:
    """The session's own write does as well, and one inside another transaction."""
    clients.say("WATCH done", ANN)
    if session == BOB:
        clients.say("WATCH k", BOB)
    clients.say("SET done 0" if session == ANN else EXEC, session)

    assert NIL_ARRAY is clients.say(EXEC, ANN)


def test_exec_ends_the_watches(clients: Clients) -> None:
    """Whether it ran or not: the next transaction depends on what is watched after it."""
    for lost in (True, False):
        clients.say("WATCH k", ANN)
        if lost:
            clients.say("SET k v")
        clients.say(EXEC, ANN)
        clients.say("WATCH other", ANN)
        clients.say("SET k v")

        assert [OK] == clients.say(EXEC, ANN)


def test_unwatch_ends_the_watches(clients: Clients) -> None:
    """After UNWATCH a session that has lost can watch anew."""
    clients.say("WATCH k", ANN)
    clients.say("SET k v")

    assert OK == clients.say("UNWATCH", ANN)
    assert OK == clients.say("WATCH other", ANN)
    assert [OK] == clients.say(EXEC, ANN)


def test_an_exec_whose_session_watches_nothing_is_lost(clients: Clients) -> None:
    """An EXEC names its session only when it depends on watches; when there is none, it was forgotten."""
    assert NIL_ARRAY is clients.say(EXEC, ANN)
    assert [OK] == clients.say(EXEC)


def test_a_watch_is_of_one_database(clients: Clients) -> None:
    """The same name in another database is another key."""
    clients.say("WATCH k", ANN, db=3)
    clients.say("SET k v")

    assert [OK] == clients.say(EXEC, ANN)

    clients.say("WATCH k", ANN, db=3)
    clients.say("SET k v", db=3)

    assert NIL_ARRAY is clients.say(EXEC, ANN)


def test_a_key_that_dies_breaks_its_watch(clients: Clients) -> None:
    """Alive at WATCH and dead at EXEC; a key that was dead already and still is breaks nothing."""
    clients.say("SET k v PX 10")
    clients.say("WATCH k", ANN)
    clients.say("WATCH k", BOB, after_ms=10)

    assert NIL_ARRAY is clients.say(EXEC, ANN)
    assert [OK] == clients.say(EXEC, BOB)


def test_the_first_watch_of_a_key_counts(clients: Clients) -> None:
    """A second WATCH of the same key renews nothing: neither whether it was alive nor since when it is watched."""
    clients.say("SET k v PX 10")
    clients.say("WATCH k", ANN)
    clients.say("WATCH k k", ANN, after_ms=10)

    assert NIL_ARRAY is clients.say(EXEC, ANN)


# ------------------------------------------------------------------ time


@pytest.mark.parametrize(("waited_ms", "reply"), [(WATCH_MS_MAX, [OK]), (WATCH_MS_MAX + 1, NIL_ARRAY)])
def test_a_watch_holds_for_an_hour(waited_ms: int, reply: object, clients: Clients) -> None:
    """A watch that is older than an hour of log time counts as lost."""
    clients.say("WATCH k", ANN)

    assert reply == clients.say(EXEC, ANN, after_ms=waited_ms)


def test_old_watches_cost_nothing(clients: Clients) -> None:
    """The first write after the hour makes one record of a session's watches; after a day WATCH drops that as well."""
    clients.say("WATCH k l m", ANN)
    clients.restart()

    assert 3 == len(_watch_records(clients.store))

    clients.say("SET other v", after_ms=WATCH_MS_MAX + 1)
    clients.restart()

    assert [b"watch/" + ANN] == _watch_records(clients.store)

    clients.say("WATCH k", BOB, after_ms=WATCH_LOST_MS_MAX)
    clients.restart()

    assert [b"watch/" + ANN, b"watch/" + BOB + b"\0k"] == _watch_records(clients.store)

    clients.say("UNWATCH", BOB)
    clients.say("WATCH k", BOB, after_ms=1)
    clients.restart()

    assert [b"watch/" + BOB + b"\0k"] == _watch_records(clients.store)


def test_a_command_that_fails_ages_the_watches_too(clients: Clients) -> None:
    """What is due is due: the verifying machine does not take it for a change that the command has made."""
    clients.say("SET k v")
    clients.say("WATCH k", ANN)
    error = clients.say("INCR k", after_ms=WATCH_MS_MAX + 1)
    clients.restart()

    assert isinstance(error, CommandError)
    assert [b"watch/" + ANN] == _watch_records(clients.store)


def test_a_session_that_was_forgotten_has_lost(clients: Clients) -> None:
    """More watches do not bring back what was lost, neither after an hour nor when a key was modified."""
    clients.say("WATCH k", ANN)
    clients.say("WATCH l", ANN, after_ms=WATCH_MS_MAX + 1)
    clients.say("SET other v", after_ms=1)
    clients.say("WATCH m", ANN)

    assert NIL_ARRAY is clients.say(EXEC, ANN)


# ------------------------------------------------------------------ what is refused


def test_a_session_watches_so_many_keys(clients: Clients) -> None:
    """One more is refused and changes nothing; a key named twice counts once, and one that is watched not at all."""
    most = " ".join(f"k{n}" for n in range(WATCHED_KEYS_MAX))

    assert OK == clients.say(f"WATCH {most} k0", ANN)
    assert OK == clients.say("WATCH k1", ANN)
    error = clients.say("WATCH one-more", ANN)

    assert isinstance(error, CommandError)
    assert f"ERR a session cannot watch more than {WATCHED_KEYS_MAX} keys" == error.message
    clients.say("SET one-more v")
    assert [OK] == clients.say(EXEC, ANN)


@pytest.mark.parametrize(
    ("line", "session", "reason"),
    [
        ("WATCH k", None, "WATCH needs a session"),
        ("UNWATCH", None, "UNWATCH needs a session"),
        ("WATCH", ANN, "ERR wrong number of arguments for 'watch' command"),
        ("WATCH k", b"short", "a session of 5 bytes, not 16"),
    ],
)
def test_what_cannot_watch_is_a_dead_letter(line: str, session: bytes | None, reason: str, clients: Clients) -> None:
    """WATCH and UNWATCH belong to a session of 16 bytes."""
    assert reason == clients.say(line, session)


def test_watch_is_no_part_of_a_transaction(clients: Clients) -> None:
    """WATCH inside EXEC makes it a dead letter; UNWATCH there is allowed and does nothing, as in Redis."""
    machine = clients.machine
    applied = apply(machine, (0, NOW_MS, b"EXEC", [[b"WATCH", b"k"]], 0, None, ANN))

    assert [(0, "WATCH cannot be part of a transaction")] == applied.dead_letters

    clients.say("WATCH k", BOB)
    offset = machine.next_offset
    applied = apply(machine, (offset, NOW_MS, b"EXEC", [[b"UNWATCH"]], 0, None, None))

    assert [OK] == applied.outcomes[offset]
    assert [OK] == clients.say(EXEC, BOB)


def test_in_cluster_mode_the_watched_keys_have_one_slot() -> None:
    """WATCH obeys slots as every command does; UNWATCH acts on the partition that it is in, also in a transaction."""
    clients = Clients(new_store(), home_of("topic", 0, 4))

    assert "CROSSSLOT Keys in request don't hash to the same slot" == clients.say("WATCH {a}1 {b}1", ANN)
    assert "wrong partitioner" in clients.say("WATCH foo", ANN)
    assert OK == clients.say("WATCH {b}1 {b}2", ANN)
    assert OK == clients.say("UNWATCH", ANN)
    offset = clients.machine.next_offset
    applied = apply(clients.machine, (offset, NOW_MS, b"EXEC", [[b"UNWATCH"]], 0, None, None))
    assert [OK] == applied.outcomes[offset]


# ------------------------------------------------------------------ again


def test_an_exec_that_lost_is_remembered(clients: Clients) -> None:
    """Sent again with its id it gets nil again, and leaves the session's new watches alone."""
    clients.say("WATCH k", ANN)
    clients.say("SET k v")

    assert NIL_ARRAY is clients.say(EXEC, ANN, event_id=b"once")

    clients.say("WATCH other", ANN)

    assert NIL_ARRAY is clients.say(EXEC, ANN, event_id=b"once")
    assert [OK] == clients.say(EXEC, ANN, event_id=b"twice")


def test_watches_survive_a_restart(clients: Clients) -> None:
    """Both those that hold and those that are lost, in a state that is opened again."""
    clients.say("WATCH k", ANN)
    clients.say("WATCH l", BOB)
    clients.say("SET k v")
    clients.restart()

    assert NIL_ARRAY is clients.say(EXEC, ANN)

    clients.say("SET l v")

    assert NIL_ARRAY is clients.say(EXEC, BOB)
    clients.restart()
    assert [] == _watch_records(clients.store)


def test_a_rollback_brings_back_the_watches(clients: Clients) -> None:
    """What the uncommitted batch watched is forgotten, what it broke holds again."""
    clients.say("WATCH k", ANN)
    clients.restart()
    clients.say("SET k v")
    clients.say("WATCH l", BOB)
    clients.machine.rollback()

    assert [OK] == clients.say(EXEC, ANN)
    assert NIL_ARRAY is clients.say(EXEC, BOB)


@pytest.mark.parametrize("name", [b"watch/" + ANN, b"watch/" + ANN + b"\0k"])
@pytest.mark.damaging
def test_a_damaged_watch_is_found(name: bytes, clients: Clients) -> None:
    """A record of another size stops the partition: its watches would be guesses."""
    clients.say("WATCH k", ANN)
    clients.restart()
    damage = Changes()
    damage.of("system")[name] = b"\1"
    clients.store.write(damage)

    with pytest.raises(CorruptionError, match=f"watch record {name.hex()} cannot be read"):
        open_machine(clients.store)


@pytest.mark.parametrize("seed", range(5))
def test_every_run_decides_the_same(seed: int) -> None:
    """In batches of any size, with a small cache, witnessed or not, after restarts: same outcomes, same bytes."""
    records = _with_sessions(seed, random_records(seed, 400))
    runs = [
        _run(records, batch, key_cache_bytes=cached, witnessing=witnessing, reopen=reopen)
        for batch, cached, witnessing, reopen in [
            (1, 100, False, False),
            (7, 2, True, False),
            (50, 100, False, True),
            (1000, 100, True, False),
        ]
    ]

    assert [runs[0]] * 3 == runs[1:]
    outcomes = runs[0][0]
    lost = {
        outcomes[record[0]] == repr(NIL_ARRAY) for record in records if record[2] == b"EXEC" and record[0] in outcomes
    }
    assert {False, True} == lost


def _with_sessions(seed: int, records: list[Record]) -> list[Record]:
    """The same records, with WATCH before some and a session in every EXEC."""
    random = Random(seed)
    sessions = (ANN, BOB, b"c" * 16)
    result: list[Record] = []
    for offset, time_ms, name, args, db, event_id, _ in records:
        session = random.choice(sessions)
        if name == b"EXEC":
            result.append((offset, time_ms, name, args, db, event_id, session))
        elif random.random() < 0.2:
            result.append((offset, time_ms, b"WATCH", random.choices(KEYS, k=2), db, None, session))
        else:
            result.append((offset, time_ms, name, args, db, event_id, None))
    return result


def _run(
    records: list[Record], batch: int, *, key_cache_bytes: int, witnessing: bool, reopen: bool
) -> tuple[dict[int, str], list[tuple[str, bytes, bytes]]]:
    store = new_store()
    machine = Machine(store, HOME, key_cache_bytes=key_cache_bytes)
    outcomes: dict[int, str] = {}
    left = records
    while left:
        machine.witnessing = witnessing
        applied = machine.apply(left[:batch], machine.next_offset, waiting=range(1 << 30))
        outcomes |= {offset: repr(reply) for offset, reply in applied.outcomes.items()}
        machine.commit(FINGERPRINT)
        left = left[applied.records :]
        if reopen:
            machine = Machine(store, HOME, key_cache_bytes=key_cache_bytes)
    return outcomes, records_of(store)


def _watch_records(store: MemoryStore) -> list[bytes]:
    return [name for name in family(store, "system") if name.startswith(b"watch/")]
