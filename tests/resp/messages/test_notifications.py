"""Keyspace notifications: the same events in the same order as valkey-server tells, on the same channels."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pytest

from engine.apply.machine import Machine
from engine.apply.records import Applied, Modified
from engine.cleaning.sweep import Sweeper, Swept
from engine.commands.registry import SPECS, find_words
from engine.values.rdb.encode import seal
from engine.values.rdb.functions import dump
from resp.messages.notifications import Notifications
from resp.messages.pubsub import PubSub
from slotlog.clock import now_ms
from tests.engine.harness import new_store, open_machine
from tests.real.oracle import Connection
from tests.resp.keyspace_scripts import EXPIRY, HASHES, LATER, LISTS, SETS, SORTED_SETS, STREAMS, STRINGS

PATTERN: Final = b"__key*__:*"
MARK: Final = b"__key-mark__:"

SILENT: Final = """
SET a 1 | SWAPDB 0 1 | SELECT 1 | WATCH a | UNWATCH | FLUSHDB | SELECT 0 | SET a 1 | FLUSHALL
SCRIPT LOAD return | EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0 | EVAL return 0 | SCRIPT FLUSH
XACK x g 1
FUNCTION LOAD LIBRARY | FCALL silent 0 | FUNCTION DELETE silent | FUNCTION RESTORE LIBRARIES | FUNCTION FLUSH
"""
"""Write commands after which Redis tells nothing, behind SET."""

SILENT_LIBRARY: Final = b"#!lua name=silent\nredis.register_function('silent', function() end)"
WORDS: Final = {
    "''": b"",
    "PAYLOAD": seal([b"\x01\x01\x01a"], 9),
    "LIBRARY": SILENT_LIBRARY,
    "LIBRARIES": dump([SILENT_LIBRARY]),
}
"""Words of a script that stand for something else; the payload is a list."""


class Listener:
    """A client that listens to all events: as much of a session as Pub/Sub asks for."""

    def __init__(self) -> None:
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.shard_channels: dict[bytes, None] = {}
        self._heard: list[list[bytes]] = []

    def send(self, message: list[bytes]) -> None:
        """Hear a message."""
        self._heard.append(list(message))

    def taken(self) -> list[list[bytes]]:
        """What it has heard since the last time."""
        heard, self._heard = self._heard, []
        return heard


class Teller:
    """Notifications with one listener."""

    def __init__(self, letters: str) -> None:
        self.listener = Listener()
        pubsub = PubSub()
        pubsub.patterns.add(cast("Any", self.listener), PATTERN)
        self.notifications = Notifications(pubsub)
        self.notifications.flags = Notifications.parse(letters)

    def told(self, modified: Sequence[Modified]) -> list[list[bytes]]:
        """What is told of these changes."""
        applied = Applied(0)
        applied.modified = list(modified)
        return self.told_of(applied)

    def told_of(self, applied: Applied) -> list[list[bytes]]:
        """What is told of a batch."""
        self.notifications.on_applied(applied)
        return self.listener.taken()

    def told_of_expiry(self, swept: Swept) -> list[list[bytes]]:
        """What is told of keys and fields that went by themselves."""
        self.notifications.on_swept(swept)
        return self.listener.taken()


def commands_of(script: str) -> list[list[bytes]]:
    """The commands of a script: words apart by spaces, commands by `|` or line ends."""
    lines = script.replace("|", "\n").splitlines()
    return [[WORDS.get(word, word.encode()) for word in line.split()] for line in lines if line.strip()]


def is_known(words: list[bytes]) -> bool:
    """Whether the engine has the command."""
    return words[0] in SPECS or b"|".join(words[:2]) in SPECS


def told_by_oracle(
    oracle: Connection, listener: Connection, commands: list[list[bytes]]
) -> Iterator[list[list[bytes]]]:
    """What the oracle tells of each command."""
    steps = [step for command in commands for step in (command, [b"PUBLISH", MARK, b""])]
    oracle.pipeline(steps)
    for _ in commands:
        heard = []
        while (message := listener._read())[2] != MARK:
            heard.append(message)
        yield heard


@pytest.fixture
def listener(oracle: Connection, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A client of the oracle that listens to all events, `n` included."""
    connection = request.getfixturevalue("oracle_server").connect()
    oracle.call("CONFIG", "SET", "notify-keyspace-events", "KEAn")
    connection.call("PSUBSCRIBE", PATTERN)
    yield connection
    connection.close()
    oracle.call("CONFIG", "SET", "notify-keyspace-events", "")


def machine() -> Machine:
    """An empty partition that says what it modifies."""
    one = open_machine(new_store())
    one.witnessing = True
    return one


def told_by_us(commands: list[list[bytes]], letters: str = "KEAn") -> Iterator[list[list[bytes]]]:
    """What we tell of each command."""
    teller, one = Teller(letters), machine()
    for words in commands:
        spec, args = find_words(words)
        applied = one.apply([(one.next_offset, now_ms(), spec.name, args, 0, None, None)], one.next_offset)
        one.commit(b"f")
        yield teller.told_of(applied)


@pytest.mark.parametrize("script", [STRINGS, HASHES, LISTS, SETS, SORTED_SETS, STREAMS, EXPIRY, LATER])
def test_same_events_as_the_oracle(script: str, oracle: Connection, listener: Connection) -> None:
    """Every command of the script is told as valkey-server tells it: same channels, same words, same order."""
    commands = [command for command in commands_of(script) if is_known(command)]

    expected = list(told_by_oracle(oracle, listener, commands))
    actual = list(told_by_us(commands))

    told = zip(commands, expected, actual, strict=True)
    assert [] == [step for step in told if step[1] != step[2]]


def test_random_commands(oracle: Connection, listener: Connection) -> None:
    """In a random order, with keys of the wrong type among them, the events are still those of valkey-server."""
    chooser = random.Random(4)
    unlike = {b"SPOP", b"LTRIM"}  # which members is left to chance; and see `test_trim_of_nothing_is_not_told`
    scripts = (STRINGS, HASHES, LISTS, SETS, SORTED_SETS, EXPIRY, LATER)
    known = [one for script in scripts for one in commands_of(script) if one[0] in SPECS.keys() - unlike]
    keys = [b"a", b"b", b"h", b"l", b"s", b"z"]
    commands = []
    for _ in range(2000):
        name, *args = chooser.choice(known)
        swap = chooser.random() < 0.1
        commands.append([name, *(chooser.choice(keys) if swap and arg in keys else arg for arg in args)])

    expected = list(told_by_oracle(oracle, listener, commands))
    actual = list(told_by_us(commands))

    told = zip(commands, expected, actual, strict=True)
    assert [] == [step for step in told if step[1] != step[2]]


def test_commands_of_later(oracle: Connection, listener: Connection) -> None:
    """The rules for commands that the engine does not have yet hold for what valkey-server itself has modified."""
    teller = Teller("KEAn")
    for number, (name, *args) in enumerate(commands_of(LATER)):
        before = contents(oracle)
        expected = next(told_by_oracle(oracle, listener, [[name, *args]]))
        after = contents(oracle)
        changed = [place for place in {**before, **after} if before.get(place) != after.get(place)]
        modified: list[Modified] = [
            (number, db, name, args, -1, key, int((db, key) in before), int((db, key) in after), now_ms())
            for db, key in changed
        ]

        assert (name, args, expected) == (name, args, teller.told(modified))


def contents(oracle: Connection) -> dict[tuple[int, bytes], tuple[Any, Any]]:
    """A digest and the time of death of every key of two databases."""
    found = {}
    for db in (1, 0):
        oracle.call("SELECT", db)
        for key in oracle.call("KEYS", "*"):
            found[db, key] = (oracle.call("DEBUG", "DIGEST-VALUE", key)[0], oracle.call("PEXPIRETIME", key))
    return found


def test_every_rule_is_compared() -> None:
    """Each write that Redis has stands in one of the scripts, in `SILENT` if it has no event."""
    scripts = (STRINGS, HASHES, LISTS, SETS, SORTED_SETS, STREAMS, EXPIRY, LATER)
    writes = [spec for spec in SPECS.values() if spec.write and spec.of == "redis"]

    assert {spec.name for spec in writes if spec.rule is not None} == {
        find_words(words)[0].name for script in scripts for words in commands_of(script) if is_known(words)
    }
    assert {spec.name for spec in writes if spec.rule is None} == {
        find_words(words)[0].name for words in commands_of(SILENT)
    } - {b"SET"}


def test_commands_without_events(oracle: Connection, listener: Connection) -> None:
    """After a write that has no event here, the oracle tells nothing either."""
    told = list(told_by_oracle(oracle, listener, commands_of(SILENT)))

    assert {b"SET"} == {name for (name, *_), events in zip(commands_of(SILENT), told, strict=True) if events}


def test_trim_of_nothing_is_not_told(oracle: Connection, listener: Connection) -> None:
    """LTRIM that leaves the list as it is: Redis tells `ltrim`, we tell nothing, as no key was modified."""
    commands = commands_of("RPUSH l a | LTRIM l 0 -1")

    assert [b"ltrim", b"l"] == [message[3] for message in list(told_by_oracle(oracle, listener, commands))[1]]
    assert [] == list(told_by_us(commands))[1]


@pytest.mark.parametrize("command", ["HEXPIRE h 0", "HPEXPIRE h 0", "HEXPIREAT h 1", "HPEXPIREAT h 1"])
def test_a_field_that_is_to_have_died_is_deleted(command: str) -> None:
    """A time in the past deletes fields: `hdel`, as Redis 7.4 tells it, where Valkey 9.1 tells `hexpired`."""
    told = list(told_by_us(commands_of(f"HSET h f 1 g 2 | {command} FIELDS 1 f | {command} FIELDS 2 g zz")))

    assert [[b"hdel"], [b"hdel", b"del"]] == [
        [message[3] for message in some if message[2] == b"__keyspace@0__:h"] for some in told[1:]
    ]


@pytest.mark.parametrize(
    ("letters", "channels"),
    [
        ("", []),
        ("A", []),
        ("KE", []),
        ("Km", []),
        ("K$", [b"__keyspace@0__:a"]),
        ("E$", [b"__keyevent@0__:set"]),
        ("Eg", [b"__keyevent@0__:expire"]),
        ("EA", [b"__keyevent@0__:set", b"__keyevent@0__:expire"]),
        ("En", [b"__keyevent@0__:new"]),
        ("El", []),
    ],
)
def test_letters_choose(letters: str, channels: list[bytes]) -> None:
    """K and E choose the channels, the other letters the classes of events; `n` is not in `A`."""
    told = list(told_by_us(commands_of("SET a 1 EX 100"), letters))

    assert channels == [message[2] for message in told[0]]


def told_by_both(
    oracle: Connection, listener: Connection, before: str, after: str
) -> tuple[list[list[list[bytes]]], list[list[list[bytes]]]]:
    """What the oracle and we tell of each command of `after`, when what `before` has written for 10 ms is due.

    The oracle's keys go only where a command meets them, and so do ours: no sweep.
    """
    oracle.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    one, teller = machine(), Teller("KEAn")
    list(told_by_oracle(oracle, listener, commands_of(before)))
    apply(one, commands_of(before), 1000)
    time.sleep(0.02)
    expected = list(told_by_oracle(oracle, listener, commands_of(after)))
    oracle.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")
    return expected, [teller.told_of(apply(one, [command], 2000)) for command in commands_of(after)]


def apply(one: Machine, commands: list[list[bytes]], time_ms: int) -> Applied:
    """Apply commands at this log time."""
    first = one.next_offset
    applied = one.apply(
        [(first + at, time_ms, name, args, 0, None, None) for at, (name, *args) in enumerate(commands)], first
    )
    one.commit(b"f")
    return applied


DUE: Final = "SET a 1 PX 10 | SET b 1 PX 10 | SADD s 1 | SET c 1 | RPUSH l 1"


@pytest.mark.parametrize(
    "command",
    [
        "SET a 2", "SET a 2 KEEPTTL", "SETEX a 100 1", "GETSET a 2", "APPEND a x", "INCR a", "SETRANGE a 0 x",
        "HSET a f 1", "LPUSH a 1", "RENAME c a", "COPY c a REPLACE", "SUNIONSTORE a s", "BITOP NOT a c",
        "SORT l STORE a", "PFADD a 1", "RPOPLPUSH l a", "SMOVE s a 1", "MSET a 1 c 2",
    ],
)  # fmt: skip
def test_a_write_over_a_due_key(command: str, oracle: Connection, listener: Connection) -> None:
    """The key that was due is told to have expired, and then what the command did, as by valkey-server."""
    expected, actual = told_by_both(oracle, listener, DUE, command)

    assert b"expired" in [message[3] for message in actual[0]]
    assert expected == actual


DUE_FIELDS: Final = "HSET h f 1 g 1 | HPEXPIRE h 10 FIELDS 1 f"
WRITES_A_DUE_FIELD: Final = ("HSET h f 2", "HSETNX h f 2", "HINCRBY h f 5", "HSETEX h FIELDS 1 f 2")


@pytest.mark.parametrize(
    "command",
    [
        *WRITES_A_DUE_FIELD, "HPEXPIRE h 100 FIELDS 1 f", "HSET h g 2", "HDEL h f", "HGETDEL h FIELDS 1 f",
        "HPERSIST h FIELDS 1 f", "DEL h", "SET h 1", "RENAME h to",
    ],
)  # fmt: skip
def test_a_write_to_a_hash_with_a_due_field(command: str, oracle: Connection, listener: Connection) -> None:
    """A field that was due and is written is told to have expired first; all else is told as by valkey-server."""
    expected, actual = told_by_both(oracle, listener, DUE_FIELDS, command)

    assert expected == actual
    assert (command in WRITES_A_DUE_FIELD) == (b"hexpired" in [message[3] for message in actual[0]])


def test_a_due_key_is_told_once(oracle: Connection, listener: Connection) -> None:
    """Commands that change nothing leave a due key to the sweep; valkey-server tells of it at once."""
    expected, actual = told_by_both(oracle, listener, DUE, "DEL a | EXPIRE b 100 | DEL b")

    assert [2, 2, 0] == [len(told) for told in expected]
    assert [[], [], []] == actual


def test_what_the_sweep_removes(oracle: Connection, listener: Connection) -> None:
    """Keys expire; hashes lose fields, told once a hash, and are deleted with the last, as valkey-server tells it."""
    script = """
        SET a 1 PX 10 | HSET h x 1 | HSETEX h PX 10 FIELDS 2 f 1 g 1 | HSETEX gone PX 10 FIELDS 2 f 1 g 1
        HSETEX own PX 500 FIELDS 1 f 1 | PEXPIRE own 10
    """
    store, teller = new_store(), Teller("KEAn")
    one = open_machine(store)
    apply(one, commands_of(script), 1000)
    apply(one, [[b"TICK"]], 1020)
    actual = teller.told_of_expiry(Sweeper(one, store).expire(100))
    list(told_by_oracle(oracle, listener, commands_of(script)))
    expected: list[list[bytes]] = []
    while len(expected) < len(actual):
        expected.append(listener._read())

    assert sorted(expected) == sorted(actual)
    assert [b"hexpired", b"del"] == [message[3] for message in actual if message[2] == b"__keyspace@0__:gone"]
    assert [b"hexpired", b"del"] == [message[3] for message in expected if message[2] == b"__keyspace@0__:gone"]


def test_databases_of_what_the_sweep_removes() -> None:
    """A key is told in its own database, in class x; a field in class h."""
    swept = Swept([(3, b"k")], [(2, b"h", 1)], more=False, due_ms=0, order=[(3, b"k"), (2, b"h")])

    assert [
        [b"pmessage", PATTERN, b"__keyspace@3__:k", b"expired"],
        [b"pmessage", PATTERN, b"__keyevent@3__:expired", b"k"],
    ] == Teller("KEx").told_of_expiry(swept)
    assert [[b"pmessage", PATTERN, b"__keyevent@2__:hexpired", b"h"]] == Teller("Eh").told_of_expiry(swept)


def test_transactions_are_told_command_by_command() -> None:
    """Commands of one EXEC that touch the same key are told one after the other."""
    one, teller = machine(), Teller("E$")
    steps = [[b"SET", b"a", b"1"], [b"SET", b"a", b"1"], [b"APPEND", b"a", b"1"]]

    applied = one.apply([(one.next_offset, 1, b"EXEC", steps, 0, None, None)], one.next_offset)

    told = [message[2] for message in teller.told(applied.modified)]
    assert told == [b"__keyevent@0__:set", b"__keyevent@0__:set", b"__keyevent@0__:append"]
