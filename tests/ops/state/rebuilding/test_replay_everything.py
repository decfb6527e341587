"""A log in which every command stands, replayed twice: three states that are the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from engine.apply.machine import Machine, Record
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.commands.registry import SPECS, find_words
from engine.errors import CommandError
from engine.layouts.layout import Form
from engine.proof.digest import digest
from engine.proof.walk import raw_records
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import GRAVEYARD_CF, Store
from engine.tables.scripts import digest_of
from engine.values.rdb.functions import dump
from engine.values.replies import NIL_ARRAY, pack
from slotlog.events import decode, encode
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import Entry
from slotlog.routing import route
from slotlog.shared.errors import EventError
from tests.differential.cleaning import Slices
from tests.differential.strategy import is_apart, participants, random_command, rendered
from tests.differential.vocabulary import ALL_KEYS
from tests.faults.service import ServiceProcess
from tests.layouts import column_families, holds, home_of, layout_of
from tests.ops.verbs import succeed, wait_for_offset
from tests.transcript import parse

SEED: Final = 5
ROUNDS: Final = 8
DRAWS_MAX: Final = 400
"""Of a command that has not changed anything in all rounds."""

LARGE: Final = 2000
"""Elements of large values, and hundreds of bytes of a large string."""

START_MS: Final = 1_700_000_000_000
"""In the year 2023: the log takes no time from the future; the vocabulary's moments are later ones."""

LEAP_MS: Final = 30 * 24 * 3_600_000

_EMPTYING: Final = {b"FLUSHALL": (0,), b"FLUSHDB": (0, ROUNDS // 2)}
"""The rounds that a command takes part in which leaves little behind; every other one takes part in all."""

LAYOUT: Final = layout_of()
HOME: Final = home_of("slotlog", 0, 1)


class Author:
    """Writes a log, and applies each event at once: what becomes of it decides what is still wanted.

    Attributes:
        entries: the log.
        moved: how often each command alone changed what is stored.
        done: how often each command gave no error, in a transaction or alone.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.moved: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self.random = Random(SEED)
        self.store = MemoryStore(column_families())
        self.machine = Machine(self.store, HOME, verify=True)
        self._now_ms = START_MS

    def event(
        self, name: bytes, args: list[Any], db: int = 0, event_id: bytes | None = None, session: bytes | None = None
    ) -> Any:
        """Append an event and apply it; its outcome; that of a dead letter is an EventError."""
        self._now_ms += self.random.randrange(100)
        before = digest(self.store, LAYOUT, self._now_ms)  # without what dies by the time alone
        value = encode(name, args, id=event_id, db=db, session=session)
        offset = len(self.entries)
        record = decode(offset, self._now_ms, value)
        self.entries.append(Entry(0, route(name, args, 1, db).key, value, self._now_ms))
        applied = self.machine.apply([record], offset, waiting=[offset])
        dead = {at: EventError(reason) for at, reason in applied.dead_letters}
        outcome = {**applied.outcomes, **dead}[offset]
        self.machine.commit(b"fingerprint")
        inner = zip(args, outcome, strict=True) if name == b"EXEC" and isinstance(outcome, list) else ()
        for done, reply in [(name, outcome), *((command[0], reply) for command, reply in inner)]:
            self.done[done] += not isinstance(reply, CommandError | EventError)
        self.moved[name] += before != digest(self.store, LAYOUT, self._now_ms)
        return outcome

    def set_clock_back(self) -> None:
        """Let the clock leap, with keys that it makes die, one in between, and set it back."""
        for name in (b"a", b"b"):
            self.event(b"SET", [b"lock " + name, b"v", b"PX", b"1000"])
        back_ms = self._now_ms
        self._now_ms += LEAP_MS
        self.event(b"INCR", [b"during the leap"], event_id=b"during")
        from_ms, self._now_ms = self._now_ms, back_ms
        sweep_all(self.machine, self.store)
        self._now_ms -= 100  # the next event's time is at most the one given
        self.event(b"SETCLOCK", [b"%d" % from_ms, b"%d" % back_ms])
        assert back_ms == self.machine.clock_ms
        self.event(b"INCR", [b"during the leap"], event_id=b"during")

    def drawn(self, name: bytes) -> list[bytes]:
        """The arguments of a random command."""
        return rendered(random_command(self.random, name).args, len(self.entries) % 50)


def story() -> Author:
    """Every writing command in every round, alone and in transactions with reads, keys that die, and sessions."""
    author = Author()
    random = author.random
    specs = participants()
    writes = [name for name, spec in specs.items() if spec.write]
    inner = [name for name, spec in specs.items() if not spec.physical and spec.transactional and name not in _EMPTYING]
    for round_ in range(ROUNDS):
        for name in random.sample(writes, len(writes)):
            if round_ not in _EMPTYING.get(name, range(ROUNDS)):
                continue
            event_id = b"%d" % random.randrange(400) if random.randrange(8) == 0 else None
            author.event(name, author.drawn(name), max(0, random.randrange(12) - 9), event_id)
            if random.randrange(6) == 0:
                author.event(b"PEXPIRE", [random.choice(ALL_KEYS), b"%d" % random.randrange(1, 5000)])
        for name in random.sample(inner, len(inner)):
            commands = [
                [other, *author.drawn(other)] for other in (name, *random.choices(inner, k=random.randrange(3)))
            ]
            author.event(b"EXEC", commands, max(0, random.randrange(12) - 9))
        _sessions(author, b"session %08d" % round_)
    others = [name for name in writes if name not in _EMPTYING]
    for name in writes:
        for _ in range(DRAWS_MAX):
            if author.moved[name]:
                break
            for each in (*random.choices(others, k=3), name):  # what it needs may be gone
                author.event(each, author.drawn(each))
    _large_values(author)
    if holds(Form.STREAMS):
        _a_stream(author)
    _own_commands(author)
    _scripts(author)
    return author


def _sessions(author: Author, session: bytes) -> None:
    """What a transaction that depends on others comes to, and the events that no random sequence has."""
    for disturbed in (False, True):
        author.event(b"WATCH", [b"s1", b"watched"], session=session)
        if disturbed:
            author.event(b"INCR", [b"watched"])
        steps = [[b"SELECT", b"1"], [b"APPEND", b"s1", session], [b"SELECT", b"0"], [b"GET", b"watched"]]
        outcome = author.event(b"EXEC", steps, session=session)
        assert disturbed == (outcome is NIL_ARRAY)
    author.event(b"WATCH", [b"h1"], session=session)
    author.event(b"UNWATCH", [], session=session)
    author.event(b"SWAPDB", [b"0", b"2"])
    author.event(b"TICK", [])
    author.event(b"RULES", [b"1"])
    author.set_clock_back()


def _large_values(author: Author) -> None:
    """Values in the forms that only large ones have: made, changed in the middle, copied, renamed, some deleted."""
    names = [b"%d" % number for number in range(LARGE)]
    pairs = [word for name in names for word in (name, name)]
    for name, args in (
        (b"ZADD", [b"large z", *pairs]),
        (b"HSET", [b"large h", *pairs]),
        (b"RPUSH", [b"large l", *names]),
        (b"SADD", [b"large e", *names]),
        (b"SETRANGE", [b"large s", b"%d" % (LARGE * 100), b"end"]),
        (b"HPEXPIRE", [b"large h", b"1000000", b"FIELDS", b"%d" % LARGE, *names]),
        (b"ZADD", [b"large z", b"7.5", b"5", b"1000", b"6", b"-1", b"new"]),
        (b"ZPOPMIN", [b"large z", b"100"]),
        (b"ZREMRANGEBYRANK", [b"large z", b"500", b"-900"]),
        (b"LINSERT", [b"large l", b"BEFORE", b"700", b"new"]),
        (b"SETBIT", [b"large s", b"%d" % (LARGE * 400), b"1"]),
        *((b"COPY", [b"large " + kind, b"copied " + kind]) for kind in (b"z", b"h", b"l", b"e", b"s")),
        *((b"RENAME", [b"copied " + kind, b"renamed " + kind]) for kind in (b"z", b"h", b"l", b"e", b"s")),
        (b"ZUNIONSTORE", [b"stored z", b"2", b"large z", b"large e"]),
        (b"SUNIONSTORE", [b"stored e", b"large e"]),
        (b"BITOP", [b"NOT", b"stored s", b"large s"]),
        (b"APPEND", [b"renamed s", b"more"]),
        (b"HDEL", [b"renamed h", *names[::2]]),
        *((b"DEL", [b"large " + kind]) for kind in (b"z", b"h", b"l", b"e", b"s")),
    ):
        outcome = author.event(name, args)
        assert not isinstance(outcome, CommandError | EventError), (name, outcome)


def _a_stream(author: Author) -> None:
    """A stream with counted blocks, groups and pending entries, of which much is trimmed."""
    for name, args in (
        (b"EXEC", [[b"XADD", b"large x", b"%d-1" % number, b"f", b"v"] for number in range(1, LARGE)]),
        (b"XGROUP|CREATE", [b"large x", b"crew", b"0"]),
        (b"XREADGROUP", [b"GROUP", b"crew", b"ann", b"COUNT", b"100", b"STREAMS", b"large x", b">"]),
        (b"XGROUP|CREATECONSUMER", [b"large x", b"crew", b"bob"]),
        (b"XAUTOCLAIM", [b"large x", b"crew", b"bob", b"0", b"0", b"COUNT", b"10"]),
        (b"XACK", [b"large x", b"crew", b"5-1", b"50-1"]),
        (b"EXEC", [[b"XINFO|CONSUMERS", b"large x", b"crew"], [b"XPENDING", b"large x", b"crew"]]),
        (b"COPY", [b"large x", b"copied x"]),
        (b"XTRIM", [b"large x", b"MAXLEN", b"9"]),
        (b"RENAME", [b"large x", b"renamed x"]),
    ):
        outcome = author.event(name, args)
        assert not isinstance(outcome, CommandError | EventError), (name, outcome)


def _own_commands(author: Author) -> None:
    """The transcripts of the commands that the compared server does not have, so that no random sequence has them."""
    for spec in [spec for spec in SPECS.values() if spec.of != "redis" and not is_apart(spec)]:
        for step in parse(spec.handler.__doc__ or ""):
            of_step, args = find_words(step.words)
            if not of_step.physical:
                author.event(of_step.name, args)


def _scripts(author: Author) -> None:
    """Scripts that write, read, draw and fail half way, with rights, in transactions, kept and flushed."""
    source, reading = b"return {redis.call('INCR', KEYS[1]), math.random(9)}", b"return redis.call('GET', KEYS[1])"
    half = b"redis.call('SET', KEYS[1], 'half') return redis.call('LPUSH', KEYS[1], 'x')"
    sha, on_key = digest_of(source), [b"1", b"scripted"]
    author.event(b"EVAL", [half, *on_key])
    author.event(b"DEL", [b"scripted"])
    steps: tuple[list[Any], ...] = (
        [b"SCRIPT|LOAD", source],
        [b"EVALSHA", sha, *on_key],
        [b"EVAL", reading, *on_key],
        [b"SCRIPT|EXISTS", sha],
        [b"SCRIPT|SHOW", sha],
        [b"EVAL_RO", reading, *on_key],
        [b"EVALSHA_RO", digest_of(reading), *on_key],
        [b"RUNAS", b"ann", b"-flushall ~*", b"EVAL", reading, *on_key],
        [b"RUNAS_RO", b"ann", b"-flushall ~*", b"EVAL_RO", reading, *on_key],
        [b"RUNAS_OOM", b"ann", b"-flushall ~*", b"EVAL", reading, *on_key],
        [b"EXEC", [b"EVALSHA", sha, *on_key], [b"SCRIPT|LOAD", half]],
        [b"SCRIPT|FLUSH"],
        [b"EVAL", source, *on_key],
    )
    for words in (*steps, *_functions()):
        assert not isinstance(author.event(words[0], words[1:]), CommandError | EventError), words


def _functions() -> tuple[list[Any], ...]:
    """Libraries that are loaded, replaced, restored and deleted, and calls that write, read and draw."""
    put = b"function(keys, args) return {redis.call('SET', keys[1], args[1]), math.random(9)} end"
    get = b"{function_name='read', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}"
    code = b"#!lua name=lib\nredis.register_function('put', %b) redis.register_function%b" % (put, get)
    on_key = [b"1", b"called"]
    return (
        [b"FUNCTION|LOAD", code],
        [b"FCALL", b"put", *on_key, b"1"],
        [b"FCALL_RO", b"read", *on_key],
        [b"RUNAS", b"ann", b"-flushall ~*", b"FCALL", b"READ", *on_key],
        [b"FUNCTION|LIST", b"WITHCODE"],
        [b"FUNCTION|DUMP"],
        [b"FUNCTION|DELETE", b"lib"],
        [b"FUNCTION|RESTORE", dump([code])],
        [b"EXEC", [b"FUNCTION|LOAD", b"REPLACE", code], [b"FCALL", b"put", *on_key, b"3"]],
        [b"FUNCTION|FLUSH"],
        [b"FUNCTION|LOAD", code],
    )


@pytest.fixture(scope="module")
def author() -> Author:
    """The log and what became of it."""
    return story()


def test_every_command_stands_in_the_log(author: Author) -> None:
    """Every command that an event may contain is there without an error; of those that change data each one did."""
    missing = [name for name, spec in SPECS.items() if not spec.physical and not author.done[name]]
    idle = [name for name, spec in SPECS.items() if spec.write and not author.moved[name]]

    assert [] == missing
    assert [name for name, spec in SPECS.items() if spec.write and not spec.changes_data] == idle


def test_the_story_has_something_of_everything(author: Author) -> None:
    """Keys of several databases and all types are left, with and without a time to live; others died on the way."""
    families = {family for family, _, _ in raw_records(author.store, LAYOUT)}

    assert {*column_families(), "system", "expiry", "graveyard", "dedup"} <= families
    assert len(author.entries) > 1000
    assert {name for name, spec in SPECS.items() if is_apart(spec)} <= author.done.keys()


@pytest.mark.timeout(300)
def test_cleaning_changes_no_outcome_and_no_byte(author: Author) -> None:
    """The log with cleaning in slices of any size behind most events, and without: the same outcomes and digests.

    And once everything is cleaned up at the end, the same records in every column family but the node-local one.
    """
    stores = [MemoryStore(column_families()) for _ in range(2)]
    cleaned, plain = machines = [Machine(store, HOME) for store in stores]
    slices = Slices(cleaned, stores[0])
    graves: list[int] = []
    for offset, entry in enumerate(author.entries):
        record = decode(offset, entry.time_ms or 0, entry.value)
        here, there = (_outcome(machine, store, record) for machine, store in zip(machines, stores, strict=True))
        assert here == there, entry
        if offset % 5:
            slices.clean(offset)
        if offset % 200 == 0 or offset > len(author.entries) - 50:
            assert 1 == len({digest(store, LAYOUT, plain.clock_ms) for store in stores}), entry
            graves = [sum(1 for _ in store.scan(GRAVEYARD_CF, b"", None)) for store in stores]

    assert graves[0] < 20 < graves[1]
    for machine, store in zip(machines, stores, strict=True):
        clean_all(machine, store)
    assert list(raw_records(stores[0], LAYOUT)) == list(raw_records(stores[1], LAYOUT))
    assert {"graveyard", "local"}.isdisjoint(family for family, _, _ in raw_records(stores[0], LAYOUT))


def sweep_all(machine: Machine, store: Store) -> None:
    """Remove all that is due, as a worker does before the clock is set back."""
    sweeper = Sweeper(machine, store)
    while sweeper.expire(3).more:
        pass


def _outcome(machine: Machine, store: Store, record: Record) -> tuple[list[bytes], list[tuple[int, str]]]:
    """What one event came to, as bytes, or why it was a dead letter; it is committed."""
    if record[2] == b"SETCLOCK":
        sweep_all(machine, store)
    applied = machine.apply([record], machine.next_offset, waiting=[record[0]])
    machine.commit(b"fingerprint")
    return [pack(outcome) for outcome in applied.outcomes.values()], applied.dead_letters


@pytest.mark.timeout(300)
async def test_two_replays_give_the_same_bytes(author: Author, tmp_path: Path) -> None:
    """`dump --raw` and `digest` of two replays are equal, and those of the service after a full clean of all three.

    Under three hash seeds. And what lies in memory after the same events one by one is equal to the replays, but for
    the log's identity.
    """
    states = [tmp_path / name for name in ("data", "first", "second")]
    log = EmbeddedLog(states[0] / "log.sqlite3", topic="slotlog", partitions=1)
    await log.start()
    begin = 0
    for at, entry in enumerate(author.entries):
        if b"SETCLOCK" in entry.value:
            await log.append(author.entries[begin:at])
            await log.set_time_back(0, entry.time_ms or 0, [entry])
            begin = at + 1
    await log.append(author.entries[begin:])
    await log.close()
    options = ["--data", str(states[0])]
    with ServiceProcess([*options, "--http", "127.0.0.1:0"], {"PYTHONHASHSEED": "1"}) as service:
        service.wait_for("started")
        wait_for_offset(service, len(author.entries))
        assert 0 == service.terminate()
    for seed, state in enumerate(states[1:], start=2):
        _replay([*options, "--to", str(state)], seed)

    raw, again = [succeed("dump", "--data", state, "--raw") for state in states[1:]]
    assert raw == again
    assert 1 == len({succeed("digest", "--data", state) for state in states})
    for state in states:
        with closing(RocksStore(state / "0", column_families())) as store:
            clean_all(Machine(store, HOME), store)
    assert 1 == len({succeed("dump", "--data", state, "--raw") for state in states})
    lines = map(json.loads, raw.splitlines())
    stored = [(line["cf"], line["key"], line["value"]) for line in lines if line["cf"] != "system"]
    assert stored == [
        (family, key.hex(), value.hex())
        for family, key, value in raw_records(author.store, LAYOUT)
        if family != "system"
    ]


def _replay(options: list[str], hash_seed: int) -> None:
    """`slotlog replay` in a process of its own; it has to say that its digest is that of the service's state."""
    done = subprocess.run(
        [sys.executable, "-m", "ops.cli", "replay", *options, "--json"],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    (replayed,) = json.loads(done.stdout)["partitions"]
    assert replayed["live_digest"] == replayed["digest"]
