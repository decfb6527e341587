"""Two clients that watch keys while both write: the engine's EXEC does nothing exactly where the oracle's does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from random import Random
from time import sleep
from typing import Any, Final, NamedTuple

import pytest

from engine.apply.machine import Machine, Record
from engine.commands.registry import SPECS
from engine.store.memory import MemoryStore
from engine.values.replies import NIL_ARRAY
from tests.differential.strategy import Command, participants, random_command, rendered
from tests.differential.vocabulary import ALL_KEYS
from tests.engine.harness import FAMILIES, FINGERPRINT, HOME, NOW_MS
from tests.layouts.differences import breaks_watches
from tests.real.oracle import Connection, NullArray, Oracle

SEQUENCES: Final = 60
STEPS: Final = 120
DATABASES: Final = 2
LAPSE_MS: Final = 300
"""Longer than the time to live in `test_keys_that_die`, and than the oracle's cycle that looks for dead keys."""

SESSIONS: Final = (b"a" * 16, b"b" * 16)

# SPOP draws its members, so contents would differ from there on.
WRITES: Final = tuple(name for name, spec in participants().items() if spec.write and name != b"SPOP")
FLUSHES: Final = (b"FLUSHALL", b"FLUSHDB")


class Step(NamedTuple):
    """What one of the two clients does, in which database: WATCH, UNWATCH, EXEC with commands, or one command."""

    client: int
    db: int
    name: bytes
    args: tuple[bytes, ...] = ()
    commands: tuple[tuple[bytes, ...], ...] = ()


def _rare_flushes(random: Random) -> bytes:
    name = random.choice(WRITES)
    return random.choice(WRITES) if name in FLUSHES and random.randrange(4) else name


def _words(random: Random, place: int) -> tuple[bytes, ...]:
    """A random writing command on few keys: whole, so that no queue refuses it."""
    if random.randrange(40) == 0:
        return (b"SWAPDB", b"%d" % random.randrange(DATABASES), b"%d" % random.randrange(DATABASES))
    command: Command = random_command(random, _rare_flushes(random))
    return (command.name, *rendered(command.args, place))


def _steps(random: Random) -> Iterator[Step]:
    for place in range(STEPS):
        client, db, kind = random.randrange(2), max(0, random.randrange(6) - 4), random.randrange(10)
        if kind < 3:
            keys = random.choices(ALL_KEYS, k=random.choice((1, 1, 2, 5)))
            yield Step(client, db, b"WATCH", tuple(keys))
        elif kind == 3:
            yield Step(client, db, b"EXEC", commands=tuple(_words(random, place) for _ in range(random.randrange(3))))
        elif kind == 4 and random.randrange(3) == 0:
            yield Step(client, db, b"UNWATCH")
        else:
            name, *args = _words(random, place)
            yield Step(client, db, name, tuple(args))


def _probes(random: Random) -> Iterator[Step]:
    """One client watches a key of the command that the other one sends, and nothing else happens before its EXEC."""
    for place in range(STEPS // 3):
        command = random_command(random, _rare_flushes(random))
        args = rendered(command.args, place)
        keys = SPECS[command.name].keys(args) or ALL_KEYS
        yield Step(0, 0, b"WATCH", (random.choice(keys),))
        yield Step(1, 0, command.name, tuple(args))
        yield Step(0, 0, b"EXEC")


def _records(steps: list[Step]) -> list[Record]:
    """The steps as events. An EXEC names its session when the client watches something, as a server does it."""
    watching = [False, False]
    records: list[Record] = []
    now_ms = NOW_MS
    for offset, step in enumerate(steps):
        args: list[Any] = list(step.args)
        session = None
        if step.name in (b"WATCH", b"UNWATCH", b"EXEC"):
            if step.name == b"WATCH" or watching[step.client]:
                session = SESSIONS[step.client]
            watching[step.client] = step.name == b"WATCH"
        name = step.name
        if name == b"EXEC":
            args = [list(command) for command in step.commands]
        elif name == b"LAPSE" or (name == b"UNWATCH" and session is None):
            name, args = b"TICK", []
            now_ms += LAPSE_MS if step.name == b"LAPSE" else 0
        records.append((offset, now_ms, name, args, step.db, None, session))
    return records


def _engine(records: list[Record], random: Random) -> dict[int, bool]:
    """Which EXEC did nothing. Batches end anywhere, and the machine is opened again or rolled back now and then."""
    store = MemoryStore(FAMILIES)
    machine = Machine(store, HOME, verify=True)
    machine.witnessing = bool(random.randrange(2))
    outcomes: dict[int, Any] = {}
    while machine.next_offset < len(records):
        batch = records[machine.next_offset :][: random.choice((1, 1, 2, 7, 50))]
        outcomes |= machine.apply(batch, machine.next_offset, waiting=range(len(records))).outcomes
        chance = random.randrange(10)
        if chance == 0:
            machine.rollback()
        elif chance < 5:
            machine.commit(FINGERPRINT)
        if chance == 1:
            machine = Machine(store, HOME, verify=True)
    return {offset: outcomes[offset] is NIL_ARRAY for offset, _, name, *_ in records if name == b"EXEC"}


def _oracle(steps: list[Step], clients: tuple[Connection, Connection]) -> dict[int, bool]:
    """Which EXEC did nothing."""
    clients[0].call("FLUSHALL")
    nothing = {}
    for client in clients:
        client.call("UNWATCH")
    for place, step in enumerate(steps):
        client = clients[step.client]
        select = (b"SELECT", step.db)
        if step.name == b"LAPSE":
            sleep(LAPSE_MS / 1000)
        elif step.name == b"EXEC":
            *_, reply = client.pipeline([select, (b"MULTI",), *map(_sent, step.commands), (b"EXEC",)])
            assert isinstance(reply, list | NullArray), f"{place}: {step} {reply}"
            nothing[place] = isinstance(reply, NullArray)
        else:
            client.pipeline([select, _sent((step.name, *step.args))])
    return nothing


def _sent(words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """A command as a client sends it: with its subcommand as a word."""
    return (*words[0].split(b"|"), *words[1:])


def _differing(steps: list[Step], expected: dict[int, bool], actual: dict[int, bool]) -> list[tuple[int, Step]]:
    """The EXECs with another outcome, up to one that the layout declares: behind it the contents differ, too."""
    found = []
    watched: list[set[bytes]] = [set(), set()]
    broken = [False, False]
    for place, step in enumerate(steps):
        if step.name == b"WATCH":
            watched[step.client].update(step.args)
        if step.name == b"EXEC" and expected[place] != actual[place]:
            if actual[place] and broken[step.client]:
                break
            found.append((place, step))
        if step.name in (b"EXEC", b"UNWATCH"):
            watched[step.client], broken[step.client] = set(), False
        for name, *args in step.commands or [(step.name, *step.args)]:
            if breaks_watches(name) and args:
                broken = [is_broken or args[0] in keys for is_broken, keys in zip(broken, watched, strict=True)]
    return found


@contextmanager
def _clients(server: Oracle) -> Iterator[tuple[Connection, Connection]]:
    with closing(server.connect()) as first, closing(server.connect()) as second:
        yield first, second


SHAPES: Final = {"mixed": _steps, "probes": _probes}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_watch_is_lost_where_the_oracle_loses_it(seed: int, shape: str, oracle_server: Oracle) -> None:
    """Whatever both do, in all batches, after rollbacks and restarts: an EXEC is nil where the oracle's is."""
    random = Random(seed)
    steps = list(SHAPES[shape](random))
    with _clients(oracle_server) as clients:
        expected = _oracle(steps, clients)

    actual = _engine(_records(steps), random)

    assert [] == _differing(steps, expected, actual)


@pytest.mark.parametrize(
    ("setup", "command"),
    [
        *(("SET k v", f"{name} k w") for name in ("SET", "SETNX", "GETSET", "APPEND", "HSET k", "LPUSHX")),
        ("SET k v", "SET k w IFEQ x"),
        ("SET k v", "SET k w PXAT 1"),
        ("SET k v", "SETRANGE k 0 v"),
        ("SET k v", "EXPIRE k -1"),
        ("SET k v", "GETEX k"),
        ("SET k v", "GETEX k PERSIST"),
        ("SET k v PXAT 4102444800000", "GETEX k PERSIST"),
        ("SET k v PXAT 4102444800000", "GETEX k PXAT 4102444800000"),
        ("SET k v PXAT 4102444800000", "PEXPIREAT k 4102444800000"),
        ("SET k v PXAT 4102444800000", "SET k v KEEPTTL"),
        ("SET other v", "DEL k"),
        ("SET other v", "EXPIRE k 100"),
        ("HSET k f v", "HSET k f v"),
        ("HSET k f v", "HSETNX k f w"),
        ("HSET k f 1", "HINCRBY k f 0"),
        ("HSET k f v", "HDEL k g"),
        ("RPUSH k a b", "LTRIM k 0 -1"),
        ("RPUSH k a b", "LSET k 0 a"),
        ("RPUSH k a b", "LPOP k 0"),
        ("RPUSH k a", "LMOVE k k LEFT RIGHT"),
        ("RPUSH k a b", "LMOVE k k LEFT LEFT"),
        ("SADD k a", "SADD k a"),
        ("SADD k a b", "SPOP k"),
        ("SADD k a b", "SPOP k 0"),
        ("ZADD k 1 a", "ZADD k 1 a"),
        ("ZADD k 1 a", "ZADD k XX 2 b"),
        ("ZADD k 1 a", "ZINCRBY k 0 a"),
        ("ZADD k 1 a", "ZADD k NX INCR 1 a"),
    ],
)
def test_commands_that_hardly_change_anything(setup: str, command: str, oracle_server: Oracle) -> None:
    """A command that writes what is there already, or nothing at all: it breaks a watch where it does on the oracle."""
    steps = [_step(1, setup), _step(0, "WATCH k"), _step(1, command), _step(0, "EXEC")]
    with _clients(oracle_server) as clients:
        expected = _oracle(steps, clients)

    assert [] == _differing(steps, expected, _engine(_records(steps), Random(1)))


LAPSE: Final = "the key k dies"


@pytest.mark.parametrize(
    "lines",
    [
        ("SET k v PX 100", "WATCH k", LAPSE),
        ("SET k v PX 100", LAPSE, "WATCH k"),
        ("SET k v PX 100", LAPSE, "WATCH k", "SET k v"),
        ("SET k v PX 100", LAPSE, "WATCH k", "DEL k"),
        ("SET k v PX 100", LAPSE, "WATCH k", "FLUSHALL"),
        ("SET k v PX 100", "WATCH k", LAPSE, "FLUSHDB"),
        ("SET k v PX 100", "WATCH k", LAPSE, "SWAPDB 0 1"),
        ("SET k v PX 100", LAPSE, "WATCH k", "SWAPDB 0 1"),
        ("SET k v PX 100", "SWAPDB 0 1", LAPSE, "WATCH k", "SWAPDB 1 0"),
        ("SET k v", "SWAPDB 0 1", "SET k w PX 100", LAPSE, "WATCH k", "SWAPDB 1 0"),
        ("SET k v", "SWAPDB 0 1", "WATCH k", "SWAPDB 1 2"),
        ("SET k v", "SWAPDB 0 1", "WATCH k", "SWAPDB 0 1", "SWAPDB 0 1"),
        ("SET k v", "WATCH k", "SWAPDB 0 0"),
        ("WATCH k", "SET k v PX 100", LAPSE),
    ],
)
@pytest.mark.parametrize("active", [0, 1])
def test_keys_that_die(lines: tuple[str, ...], active: int, oracle_server: Oracle) -> None:
    """Alive or dead at WATCH, and then: as on the oracle, whether it has noticed or still holds the dead key."""
    steps = [_step(0 if line.startswith("WATCH") else 1, line) for line in (*lines, "EXEC")]
    steps[-1] = steps[-1]._replace(client=0)
    with _clients(oracle_server) as clients:
        clients[0].call("DEBUG", "SET-ACTIVE-EXPIRE", active)
        expected = _oracle(steps, clients)
        clients[0].call("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    assert expected == _engine(_records(steps), Random(1))


def _step(client: int, line: str) -> Step:
    name, *args = line.encode().split(b" ")
    return Step(client, 0, b"LAPSE" if line == LAPSE else name, tuple(args))


def test_the_sequences_are_worth_it() -> None:
    """Both outcomes are frequent, and every writing command stands among the steps often enough."""
    kinds: Counter[bool] = Counter()
    names: Counter[bytes] = Counter()
    for seed, shape in product(range(SEQUENCES), SHAPES):
        random = Random(seed)
        steps = list(SHAPES[shape](random))
        names.update(step.name for step in steps)
        kinds.update(_engine(_records(steps), random).values())

    assert min(kinds.values()) > 100
    assert [] == [name for name in WRITES if names[name] < 8 and SPECS[name].group != "server"]
