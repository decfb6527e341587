"""Keyspace notifications: the same events in the same order as valkey-server tells, on the same channels."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pytest

from engine.applied import Touched
from engine.machine import Machine
from engine.rdb.encode import seal
from engine.registry import SPECS
from ingest.clock import now_ms
from ingest.resp.keyspace_events import RULES
from ingest.resp.notifications import Notifications
from ingest.resp.pubsub import PubSub
from tests.engine.harness import new_store, open_machine
from tests.real.oracle import Connection

PATTERN: Final = b"__key*__:*"
MARK: Final = b"__key-mark__:"

WITHOUT_EVENTS: Final = frozenset(
    {b"FLUSHALL", b"FLUSHDB", b"SWAPDB", b"SELECT", b"TICK", b"RULES", b"WATCH", b"UNWATCH"}
)
"""Write commands after which Redis tells nothing, and events that no client sends."""

STRINGS: Final = """
    SET a 1 | SET a 2 EX 1000 | SET a 2 KEEPTTL | SET a 3 NX | SET a 3 XX GET | SET a 4 IFEQ 3 | SET new 4 IFEQ ex
    SET a 2 PXAT 1 | SET a 2 PXAT 1 | SET a ex | SET a px IFEQ ex
    SETNX a 3 | SETNX b 3 | SETEX b 1000 3 | PSETEX b 1000000 3 | GETSET b 4 | GETSET c 4 | SET b 1
    GETEX b EX 1000 | GETEX b PERSIST | GETEX b PERSIST | GETEX b | GETEX b PXAT 1 | GETEX b EX 1000
    GETDEL a | GETDEL a
    MSET a 1 b 2 a 3 | MSETNX a 1 c 2 | MSETNX d 1 e 2 | INCR a | INCR n | DECR n | INCRBY n 3 | DECRBY a 2
    INCRBYFLOAT a 1.5 | APPEND a x | APPEND app x | SETRANGE a 2 zz | SETRANGE a 2 '' | SETRANGE nn 2 zz
    DEL a b zz a | UNLINK e zz | SET l 1 | LPUSH l 1
"""
HASHES: Final = """
    HSET h f 1 g 2 | HSET h f 1 | HMSET h f 1 | HSETNX h f 2 | HSETNX h f3 2 | HINCRBY h f 1 | HINCRBYFLOAT h f 1.5
    HDEL h zz | HDEL h f | HDEL h g f3 | HINCRBY h f 1 | HDEL h f
    HSETEX h FIELDS 1 f 1 | HSETEX h EX 100 FIELDS 2 f 1 g ex | HSETEX h FNX FIELDS 1 f 1
    HSETEX h KEEPTTL FIELDS 1 f 1 | HSETEX h FIELDS 1 ex 5
    HEXPIRE h 100 FIELDS 2 f g | HEXPIRE h 100 NX FIELDS 2 f g | HPEXPIREAT h 4102444800000 FIELDS 2 f zz
    HPERSIST h FIELDS 2 f g | HPERSIST h FIELDS 2 f g | HGETEX h FIELDS 1 f | HGETEX h EX 100 FIELDS 2 zz f
    HGETEX h PERSIST FIELDS 2 f g | HGETEX h PERSIST FIELDS 1 f | HGETEX h pxat 1 FIELDS 2 f f | HSET h f 1 i 2
    HEXPIRE h 0 FIELDS 1 i | HPEXPIRE h 0 FIELDS 1 zz | HSETEX h EXAT 1 FIELDS 1 zz 1 | HEXPIREAT h 1 FIELDS 2 f g
    HSETEX h PX 0 FIELDS 1 f 1 | HSETEX h PXAT 1 FIELDS 1 f 1 | HSETEX h exat\0 9000000000 FIELDS 2 px 1 f 2
    HGETEX h PX 0 FIELDS 2 px f | HGETDEL h FIELDS 1 f | HSET h f 1 g 2 | HGETDEL h FIELDS 2 f zz | HGETDEL h FIELDS 1 g
"""
LISTS: Final = """
    RPUSH l a b c d e f | LPUSH l x | LPUSHX nol x | RPUSHX l x | LPUSHX l x | LSET l 0 q | LSET l 0 q | LPOP l
    LPOP l 0 | RPOP l 2 | LTRIM l 1 -2 | LTRIM l 5 1 | RPUSH l a b c d e f g h
    LMOVE l l2 LEFT RIGHT | LMOVE l l RIGHT LEFT | LMOVE nol l LEFT LEFT | RPOPLPUSH l2 l | LMPOP 2 l2 l LEFT COUNT 1
    LMPOP 1 l RIGHT | LMPOP 1 l RIGHT COUNT 99 | LPUSH l x | LMOVE l l LEFT RIGHT | RPOPLPUSH l l | RPOPLPUSH l l3
    LPOP l3 5 | RPOP l3
"""
SETS: Final = """
    SADD s a b c d | SADD s a | SREM s zz | SREM s a | SREM s b c d | SADD s a b c d | SPOP s 99 | SADD s a | SPOP s
    SPOP s
"""
SORTED_SETS: Final = """
    ZADD z 1 a 2 b 3 c 4 d 5 e 6 f | ZADD z 1 a | ZADD z XX 1 q | ZADD z CH 7 a | ZADD z INCR 1 a | ZADD z XX INCR 1 q
    ZINCRBY z 0 a | ZINCRBY z 1 a | ZREM z q | ZREM z a | ZPOPMIN z | ZPOPMAX z 1 | ZPOPMAX z 0 | ZMPOP 1 z MIN
    ZMPOP 2 y z MAX COUNT 99 | ZADD z INCR 1 a | ZREM z a | ZADD z 1 a | ZPOPMIN z 5
"""
EXPIRY: Final = """
    SET a 1 | EXPIRE a 1000 | EXPIRE a 1000 NX | PERSIST a | PERSIST a | EXPIRE zz 100 | EXPIRE a -1 | SET a 1
    PEXPIREAT a 9000000000000 GT | PEXPIRE a 10000000 | PEXPIREAT a 1 | HSET h f 1 | EXPIREAT h 1
    SADD s 1 | EXPIREAT s 99999999999
"""
LATER: Final = """
    SET a 1 | SET b 1 | MSETEX 2 d 1 d 2 EX 1000 | MSETEX 1 d 1 | DELIFEQ d 1
    SETBIT bb 7 1 | BITOP AND bc bb bb | BITOP AND bc zz zy | BITFIELD bb SET u8 0 9 | PFADD hl a | PFMERGE hl2 hl
    HSET h q 1 | HGETDEL h FIELDS 1 q | RPUSH l 3 1 2 3 | LINSERT l BEFORE 1 z | LINSERT l BEFORE nope z | LREM l 0 3
    SORT l ALPHA STORE sl | SORT nope STORE sl | LREM l 0 1
    SADD s a b c | SMOVE s s2 zz | SMOVE s s2 c | SMOVE s s2 b | SMOVE s s2 a | SMOVE s2 s c | SADD s2 c | SMOVE s2 s c
    SINTERSTORE si s s2 | SUNIONSTORE si s s2 | SDIFFSTORE si s s | SDIFFSTORE si s s
    ZADD z 1 a 2 b 3 c 4 d 5 e 6 f | ZREMRANGEBYRANK z 0 0 | ZREMRANGEBYSCORE z 2 2 | ZREMRANGEBYLEX z - [c
    ZRANGESTORE zz z 0 -1 | ZRANGESTORE zz z 5 1 | ZUNIONSTORE zz 1 z | ZUNIONSTORE zz 1 z WEIGHTS 2
    ZINTERSTORE zz 1 z | ZDIFFSTORE zd 2 z nope | ZINTERSTORE zz 2 z nope | ZREMRANGEBYRANK z 0 -1
    GEOADD g 1 1 a | GEOSEARCHSTORE g2 g FROMMEMBER a BYRADIUS 1 m | GEORADIUS g 1 1 1 m STORE g3
    GEORADIUSBYMEMBER g a 1 m STORE g4 | GEOSEARCHSTORE g2 nope FROMLONLAT 1 1 BYRADIUS 1 m
    SET a 9 | RENAME a a | RENAME a b | SET a 2 | RENAME a b | RENAMENX b c | RENAMENX c c | SET a 1 | COPY a c
    SET a 8 | COPY a c REPLACE
    RESTORE r 0 PAYLOAD | RESTORE r 10000 PAYLOAD REPLACE | RESTORE r 0 PAYLOAD | RESTORE r 1 PAYLOAD ABSTTL REPLACE
    RESTORE r 1 PAYLOAD ABSTTL | RESTORE r 0 no-payload
    COPY a c DB 1 | COPY a d | MOVE a 1
"""
"""Further commands, some of which the engine does not have yet: their rules are compared by themselves."""

WORDS: Final = {"''": b"", "PAYLOAD": seal([b"\x01\x01\x01a"], 9)}
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

    def told(self, touched: Sequence[Touched]) -> list[list[bytes]]:
        """What is told of these changes."""
        self.notifications.on_touched(touched)
        return self.listener.taken()


def commands_of(script: str) -> list[list[bytes]]:
    """The commands of a script: words apart by spaces, commands by `|` or line ends."""
    lines = script.replace("|", "\n").splitlines()
    return [[WORDS.get(word, word.encode()) for word in line.split()] for line in lines if line.strip()]


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
    for name, *args in commands:
        applied = one.apply([(one.next_offset, now_ms(), name, args, 0, None, None)], one.next_offset)
        one.commit(b"f")
        yield teller.told(applied.touched)


@pytest.mark.parametrize("script", [STRINGS, HASHES, LISTS, SETS, SORTED_SETS, EXPIRY, LATER])
def test_same_events_as_the_oracle(script: str, oracle: Connection, listener: Connection) -> None:
    """Every command of the script is told as valkey-server tells it: same channels, same words, same order."""
    commands = [command for command in commands_of(script) if command[0] in SPECS]

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
        touched: list[Touched] = [
            (number, db, name, args, -1, key, int((db, key) in before), int((db, key) in after), now_ms())
            for db, key in changed
        ]

        assert (name, args, expected) == (name, args, teller.told(touched))


def contents(oracle: Connection) -> dict[tuple[int, bytes], tuple[Any, Any]]:
    """A digest and the time of death of every key of two databases."""
    found = {}
    for db in (1, 0):
        oracle.call("SELECT", db)
        for key in oracle.call("KEYS", "*"):
            found[db, key] = (oracle.call("DEBUG", "DIGEST-VALUE", key)[0], oracle.call("PEXPIRETIME", key))
    return found


def test_every_write_command_has_a_rule() -> None:
    """No write command of the engine is without events but those that have none in Redis either."""
    writes = {name for name, spec in SPECS.items() if spec.write}

    assert writes - RULES.keys() == WITHOUT_EVENTS & writes


def test_every_rule_is_compared() -> None:
    """Each command with a rule stands in one of the scripts above."""
    scripts = (STRINGS, HASHES, LISTS, SETS, SORTED_SETS, EXPIRY, LATER)

    assert RULES.keys() == {command[0] for script in scripts for command in commands_of(script)}


def test_trim_of_nothing_is_not_told(oracle: Connection, listener: Connection) -> None:
    """LTRIM that leaves the list as it is: Redis tells `ltrim`, we tell nothing, as no key was modified."""
    commands = commands_of("RPUSH l a | LTRIM l 0 -1")

    assert [b"ltrim", b"l"] == [message[3] for message in list(told_by_oracle(oracle, listener, commands))[1]]
    assert [] == list(told_by_us(commands))[1]


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


def test_expired() -> None:
    """A key that has died of its time to live is told in class x, in its own database."""
    teller = Teller("KEx")

    teller.notifications.expired_keys(3, b"k")

    assert teller.listener.taken() == [
        [b"pmessage", PATTERN, b"__keyspace@3__:k", b"expired"],
        [b"pmessage", PATTERN, b"__keyevent@3__:expired", b"k"],
    ]


def test_transactions_are_told_command_by_command() -> None:
    """Commands of one EXEC that touch the same key are told one after the other."""
    one, teller = machine(), Teller("E$")
    steps = [[b"SET", b"a", b"1"], [b"SET", b"a", b"1"], [b"APPEND", b"a", b"1"]]

    applied = one.apply([(one.next_offset, 1, b"EXEC", steps, 0, None, None)], one.next_offset)

    told = [message[2] for message in teller.told(applied.touched)]
    assert told == [b"__keyevent@0__:set", b"__keyevent@0__:set", b"__keyevent@0__:append"]
