"""The logs of the corpus, made by the generators of other tests with fixed seeds.

The corpus does not follow them: a generator may change, a log that was recorded may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

from msgpack import packb

from engine.commands.registry import SPECS
from engine.limits import DEDUP_WINDOW_MS
from ops.demo.flights import events as flight_events
from ops.demo.flights import read_flights
from slotlog.events import decode, encode
from slotlog.routing import route
from slotlog.shared.errors import EventError
from slotlog.shared.limits import DATABASES
from tests.differential.strategy import (
    GROUPS,
    Command,
    FieldLapse,
    Lapse,
    Step,
    Transaction,
    participants,
    random_command,
    random_steps,
    rendered,
)
from tests.differential.vocabulary import ALL_KEYS
from tests.engine.workload import random_records
from tests.golden.corpus import Log, LogRecord
from tests.golden.function_events import function_events
from tests.golden.rules_events import RULES_EVENTS
from tests.golden.script_events import full_events, script_events
from tests.golden.stream_events import stream_events
from tests.ops.state.rebuilding.test_replay_everything import story
from tests.simulation.events import Events, Stopper

_TOPIC: Final = "slotlog"
_START_MS: Final = 1_700_000_000_000
_FLIGHT_EVENTS: Final = 6000
_LARGE_STEPS: Final = 400
_SEQUENCES: Final = 20
"""Random sequences of each group of commands, each on an empty state."""

_SIMULATED: Final = 1500
_MUTATED: Final = 1200
_SESSION_STEPS: Final = 900
_SESSIONS: Final = tuple(b"session %08d" % number for number in range(3))


class _Author:
    """Appends events to one partition."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.now_ms = _START_MS
        self.records: list[LogRecord] = []

    def event(self, name: bytes, args: Sequence[Any], db: int = 0, **fields: Any) -> None:
        """Append a well-formed event."""
        value = encode(name, list(args), db=db, **fields)
        _, _, upper, words, *_ = decode(0, 0, value)
        try:
            key = route(upper, words, 1, db).key
        except EventError:  # no producer would send it; in a log it may stand
            key = None
        self.value(value, key)

    def value(self, value: bytes | None, key: bytes | None = None) -> None:
        """Append any bytes."""
        self.records.append(LogRecord(0, len(self.records), self.now_ms, key, value))

    def log(self) -> Log:
        """All of it."""
        return Log(1, _TOPIC, self.records)


def _small() -> Log:
    """A few commands of each type: a log whose dump can be read."""
    author = _Author("small")
    for line in (
        *("SET s 1", "INCR s", "SET timed v PX 60000", "SET gone v PX 5", "SETRANGE fragments 131072 end"),
        *("SETBIT b 9 1", "BITFIELD b SET u8 #1 200", "PFADD p a b c", "GEOADD g 13.361389 38.115556 Palermo"),
        *("HSET h a 1 b 2", "HINCRBYFLOAT h a 0.5", "HSET timed:h a 1 b 2", "HPEXPIRE timed:h 60000 FIELDS 1 a"),
        *("RPUSH l a b c", "LPUSH l z", "LPOP l", "LSET l 0 first", "SADD e a b 1", "SREM e a", "SADD empty a"),
        *("SREM empty a", "ZADD z 1 a 2.5 b -1 c", "ZINCRBY z -0.5 a", "RENAME e renamed", "COPY z copied", "DEL z"),
        *("APPEND h x", "INCR timed", "NOSUCH k", "GET", "RULES 1"),
    ):
        author.now_ms += 7
        name, *args = line.encode().split()
        author.event(name, args)
    author.event(b"SET", [b"in 3", b"v"], 3)
    author.event(b"SWAPDB", [b"3", b"5"])
    author.event(b"INCR", [b"once"], id="once")
    author.event(b"INCR", [b"once"], id="once")
    author.event(b"WATCH", [b"s"], session=_SESSIONS[0])
    author.event(b"EXEC", [[b"INCR", b"s"], [b"GET", b"s"]], session=_SESSIONS[0])
    author.value(b"\x93\x01\x02\x03")
    return author.log()


def _everything() -> Log:
    """Every command of every round of the replay tests, with large values, sessions, ids and clocks set back."""
    entries = story().entries
    return Log(
        1, _TOPIC, [LogRecord(0, at, entry.time_ms or 0, entry.key, entry.value) for at, entry in enumerate(entries)]
    )


def _group(group: str) -> Log:
    """Random sequences of one group of commands, as they are compared with the real server."""
    author = _Author(f"group {group}")
    for _ in range(_SEQUENCES):
        for place, step in enumerate(random_steps(author.random, group)):
            _take(author, place, step)
        author.event(b"FLUSHALL", [])
    for _ in range(2):  # what the last state is made of
        for place, step in enumerate(random_steps(author.random, group)):
            _take(author, place, step)
    return author.log()


def _take(author: _Author, place: int, step: Step) -> None:
    what = step.what
    author.now_ms += author.random.randrange(3)
    if isinstance(what, Lapse | FieldLapse):
        moment = b"%d" % (author.now_ms + 1)
        if isinstance(what, Lapse):
            author.event(b"PEXPIREAT", [what.key, moment], step.db)
        else:
            author.event(b"HPEXPIREAT", [what.key, moment, b"FIELDS", b"1", what.field], step.db)
        author.now_ms += 2
    elif isinstance(what, Transaction):
        author.event(b"EXEC", [[each.name, *rendered(each.args, place)] for each in what.commands], step.db)
    else:
        _take_command(author, what, place, step.db)


def _take_command(author: _Author, command: Command, place: int, db: int) -> None:
    author.value(encode(command.name, rendered(command.args, place), db=db))


def _large() -> Log:
    """Collections of thousands and strings in fragments, in the forms that only such have, changed in many ways."""
    author = _Author("large")
    random = author.random

    def number(until: int) -> bytes:
        return b"%d" % random.randrange(until)

    def pairs(count: int) -> list[bytes]:
        return [word for _ in range(count) for word in (number(900), b"m" + number(4000))]

    makers: tuple[Callable[[], list[bytes]], ...] = (
        lambda: [b"ZADD", b"z", *pairs(random.choice((1, 5, 300)))],
        lambda: [b"ZADD", b"z", random.choice((b"GT", b"LT", b"XX", b"NX")), b"CH", *pairs(40)],
        lambda: [b"ZINCRBY", b"z", number(99), b"m" + number(4000)],
        lambda: [b"ZREM", b"z", *pairs(20)],
        lambda: [b"ZREMRANGEBYSCORE", b"z", number(900), b"(" + number(900)],
        lambda: [b"ZREMRANGEBYRANK", b"z", number(2000), number(2000)],
        lambda: [random.choice((b"ZPOPMIN", b"ZPOPMAX")), b"z", number(60)],
        lambda: [random.choice((b"ZRANK", b"ZREVRANK")), b"z", b"m" + number(4000)],
        lambda: [b"ZCOUNT", b"z", number(900), number(900)],
        lambda: [b"ZRANGE", b"z", number(2000), number(2000), b"WITHSCORES"],
        lambda: [b"ZUNIONSTORE", b"y", b"2", b"z", b"e", b"WEIGHTS", b"2", b"-1"],
        lambda: [b"ZINTERSTORE", b"y", b"2", b"z", b"y"],
        lambda: [b"SADD", b"e", *pairs(150)],
        lambda: [b"SPOP", b"e", number(30)],
        lambda: [b"HSET", b"h", *pairs(150)],
        lambda: [b"HPEXPIRE", b"h", number(9000), b"FIELDS", b"2", b"1", number(900)],
        lambda: [b"RPUSH", b"l", *pairs(100)],
        lambda: [random.choice((b"LTRIM", b"LRANGE")), b"l", number(90), b"-" + number(90)],
        lambda: [b"LINSERT", b"l", b"AFTER", b"m" + number(4000), b"new"],
        lambda: [b"SETRANGE", b"s", number(400_000), number(10**9)],
        lambda: [b"SETBIT", b"s", number(4_000_000), random.choice((b"0", b"1"))],
        lambda: [b"GETRANGE", b"s", number(400_000), number(400_000)],
        lambda: [b"BITOP", random.choice((b"XOR", b"AND", b"OR")), b"t", b"s", b"t"],
        lambda: [b"BITCOUNT", b"s"],
        lambda: [b"APPEND", b"t", number(10**9) * 30],
        lambda: [b"COPY", random.choice((b"z", b"s", b"h", b"e", b"l")), b"copied", b"REPLACE"],
        lambda: [b"RENAME", b"copied", random.choice((b"y", b"old"))],
        lambda: [b"DEL", random.choice((b"old", b"y", b"t"))],
    )
    for _ in range(_LARGE_STEPS):
        author.now_ms += random.randrange(50)
        name, *args = random.choice(makers)()
        author.event(name, args)
    return author.log()


def _workload(seed: int) -> Log:
    """The engine's own random records: fragments, ids that are sent again days later, gaps, times that go back."""
    return Log(
        1,
        _TOPIC,
        [
            LogRecord(0, offset, time_ms, None, encode(name, args, id=event_id, db=db))
            for offset, time_ms, name, args, db, event_id, _ in random_records(seed, 1500)
        ],
    )


def _simulated(partitions: int) -> Log:
    """The simulation's events, without those that stop a partition; some are sent twice."""
    random = Random(f"simulation {partitions}")
    now_ms = _START_MS
    made = Events(random, partitions, lambda: now_ms, with_scripts=False)
    offsets = [0] * partitions
    records: list[LogRecord] = []
    while len(records) < _SIMULATED:
        event = made.next()
        if isinstance(event.intent, Stopper):
            continue
        now_ms += random.choice((0, 1, 5, 40, 900, -3, 20_000))
        time_ms = getattr(event.intent, "time_ms", None)
        for partition in event.partitions * (1 + (event.resendable and random.randrange(5) == 0)):
            moment = now_ms if time_ms is None else time_ms
            records.append(LogRecord(partition, offsets[partition], moment, event.key, event.value))
            offsets[partition] += random.choice((1, 1, 1, 2))
    return Log(partitions, _TOPIC, records)


def _flights() -> Log:
    """The first events of the demo."""
    author = _Author("flights")
    for event in islice(flight_events(read_flights()), _FLIGHT_EVENTS):
        author.now_ms = event.time_ms
        author.event(event.name.encode(), event.args, id=event.event_id)
    return author.log()


def _sessions() -> Log:
    """Sessions that watch keys of several databases while commands of all types, swaps and deaths disturb them."""
    author = _Author("sessions")
    random = author.random
    writes = [name for name, spec in participants().items() if spec.write and spec.transactional]

    def drawn() -> list[bytes]:
        name = random.choice(writes)
        return [name, *rendered(random_command(random, name).args, 1)]

    for _ in range(_SESSION_STEPS):
        author.now_ms += random.choice((0, 1, 50, 2000))
        session, db, kind = random.choice(_SESSIONS), random.choice((0, 0, 0, 1, DATABASES - 1)), random.randrange(12)
        if kind < 3:
            author.event(b"WATCH", random.choices(ALL_KEYS, k=random.randrange(1, 4)), db, session=session)
        elif kind == 3:
            author.event(b"UNWATCH", [], session=session)
        elif kind < 7:
            steps = [drawn() for _ in range(random.randrange(4))]
            author.event(
                b"EXEC", [[b"SELECT", b"1"], *steps] if random.randrange(4) == 0 else steps, db, session=session
            )
        elif kind == 7:
            author.event(b"PEXPIRE", [random.choice(ALL_KEYS), b"1000"], db)
        elif kind == 8:
            author.event(b"SWAPDB", [b"%d" % random.choice((0, 1, 15)) for _ in range(2)])
        else:
            name, *args = drawn()
            author.event(name, args, db)
    return author.log()


def _clocks() -> Log:
    """A clock that leaps and is set back, with keys, fields, ids and watches of both times."""
    author = _Author("clocks")
    random = author.random
    for round_ in range(12):
        now_ms = author.now_ms
        for number in range(15):
            key = b"%d" % random.randrange(9)
            author.event(b"SET", [b"s" + key, b"v", b"PX", b"%d" % random.choice((50, 5000, 10 * DEDUP_WINDOW_MS))])
            author.event(b"HSETEX", [b"h" + key, b"PX", b"%d" % random.choice((50, 5000)), b"FIELDS", b"1", key, b"v"])
            author.event(b"INCR", [b"n"], id=f"{round_ - number % 2} {number}")
            author.now_ms += random.randrange(20)
        author.event(b"WATCH", [b"n"], session=_SESSIONS[0])
        back_ms, author.now_ms = author.now_ms, author.now_ms + random.choice((1000, DEDUP_WINDOW_MS, 10**11))
        author.event(b"INCR", [b"n"], id=f"ahead {round_ // 2}")
        from_ms, author.now_ms = author.now_ms, back_ms
        author.event(b"SETCLOCK", [b"%d" % (from_ms - 1), b"%d" % back_ms])
        author.event(b"SETCLOCK", [b"%d" % from_ms, b"%d" % random.choice((now_ms, back_ms))])
        author.event(b"SETCLOCK", [b"%d" % from_ms, b"%d" % back_ms])
        author.event(b"EXEC", [[b"INCR", b"n"]], session=_SESSIONS[0])
    return author.log()


def _hostile() -> Log:
    """Events with bytes changed, cut, doubled; values of all shapes that are no event; payloads of RESTORE likewise."""
    author = _Author("hostile")
    random = author.random
    names = tuple(participants())
    for _ in range(_MUTATED):
        name = random.choice((*names, b"RESTORE", b"RESTORE"))
        args = rendered(random_command(random, name).args, 1)
        if name == b"RESTORE" and random.randrange(3):
            author.value(encode(name, [*args[:2], _damaged(random, args[2]), b"REPLACE"]))
            continue
        event = encode(name, args, id=random.choice((None, None, f"id {random.randrange(90)}")), db=random.randrange(2))
        author.now_ms += random.randrange(3)
        author.value(_damaged(random, event) if random.randrange(2) else event)
    usual: dict[str, Any] = {"v": 1, "cmd": "SET", "args": ["k", "v"]}
    author.value(None)
    for field, values in _WRONG_FIELDS.items():
        for wrong in values:
            author.value(packb({**usual, field: wrong}))
    for time_ms in (-1, 0, 1 << 48, (1 << 63) - 1):
        author.now_ms = time_ms
        author.event(b"SET", [b"at", b"%d" % time_ms])
    return author.log()


_WRONG_FIELDS: Final[dict[str, list[Any]]] = {
    "v": [0, 2, True, 1.0, "1", None],
    "cmd": ["", 5, None, "set", "NOSUCH", "\u00fc"],
    "args": ["k", {}, ["k", True], ["k", None], ["k", float("nan")], ["k", []], ["k", 1.5], [1, 2]],
    "id": ["", "x" * 64, "x" * 65, 7, None],
    "db": [-1, 15, 16, True, None],
    "session": [b"s" * 15, b"s" * 16, 5, None],
    "meta": [{"a": 1}, [], None, {"a": {"b": []}}],
    "unknown": [1],
}


def _damaged(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    match random.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + random.randbytes(random.randrange(1, 5)) + data[at:]
        case 2:
            return data[:at] + data[at + 1 :]
        case 3:
            return data + data
        case _:
            return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :] if at < len(data) else data


def _stopped() -> Log:
    """A record that asks for rules which an engine does not know stops the partition; what follows is not applied."""
    author = _Author("stopped")
    for line in ("SET k 1", "RULES 1", "RULES 0", "INCR k", "RULES 2", "INCR k"):
        name, *args = line.encode().split()
        author.event(name, args)
    return author.log()


def _rules(number: int) -> Log:
    author = _Author("rules")
    for name, args, fields in RULES_EVENTS[number]():
        author.now_ms += 7
        author.event(name, args, **fields)
    return author.log()


def _played(name: str, events: Callable[[Random], Iterator[tuple[int, bytes, list[Any]]]]) -> Log:
    """Events that are each given as (ms that have passed, command, arguments)."""
    author = _Author(name)
    for passed_ms, command, args in events(author.random):
        author.now_ms += passed_ms
        author.event(command, args)
    return author.log()


LOGS: Final[dict[str, Callable[[], Log]]] = {
    "small": _small,
    "everything": _everything,
    **{f"group-{group}": lambda group=group: _group(group) for group in GROUPS},  # type: ignore[misc]
    **{f"workload-{seed}": lambda seed=seed: _workload(seed) for seed in range(3)},  # type: ignore[misc]
    **{f"simulation-{partitions}": lambda number=partitions: _simulated(number) for partitions in (1, 3)},  # type: ignore[misc]
    "large": _large,
    "flights": _flights,
    "sessions": _sessions,
    "clocks": _clocks,
    "hostile": _hostile,
    "stopped": _stopped,
    **{f"rules-{number}": partial(_rules, number) for number in RULES_EVENTS},
    "scripts": lambda: _played("scripts", script_events),
    "scripts-full": lambda: _played("scripts-full", full_events),
    "functions": lambda: _played("functions", function_events),
    "streams": lambda: _played("streams", stream_events),
}
"""Name -> what makes the log."""


def commands_without_a_log(results: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Writing commands that stand in less than three of the records applied."""
    counted: dict[str, int] = {}
    for result in results:
        for name, count in result["commands"].items():
            counted[name] = counted.get(name, 0) + count
    return (name.decode() for name, spec in SPECS.items() if spec.write and counted.get(name.decode(), 0) < 3)
