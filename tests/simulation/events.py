"""Random events: commands of all types on few keys, transactions, and everything that no partition can apply."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from msgpack import packb

from engine.tables.scripts import digest_of
from slotlog.events import encode
from slotlog.shared.limits import TIME_MS_MAX
from slotlog.shared.slots import partition_of, slot
from tests import scripted
from tests.layouts import refused_commands
from tests.simulation.stream_events import STREAMS

Args = list[Any]

TAGS: Final = (b"{a}", b"{b}", b"{c}", b"{d}", b"{e}")
"""Keys of one tag stand in one slot, so that a transaction can have several of them."""

_WORDS: Final = (b"a", b"b", b"c", b"d", b"e", b"", b"\x00\xff", b"7", b"-3", b"12345678901234567890")
_BITS: Final = (0, 7, 9, 30, 31, 99, 700, 4096 * 8 * 2, 4096 * 8 * 33)
"""Offsets of bits, those of a string in fragments too."""

_BITWISE: Final = (b"AND", b"OR", b"XOR")
_PLACES: Final = ((b"13.361389", b"38.115556"), (b"15.087269", b"37.502669"), (b"-70.6", b"81.4"), (b"12.5", b"38.7"))
_MAKERS: Final[dict[bytes, Callable[[Random], Args]]] = {
    b"SET": lambda r: [b"s", _word(r), *r.choice(([], [], [b"NX"], [b"XX"], [b"PX", b"%d" % r.randint(1, 90_000)]))],
    b"GET": lambda _: [b"s"],
    b"INCR": lambda _: [b"n"],
    b"INCRBY": lambda r: [b"n", b"%d" % r.choice((-7, 3, 2**62))],
    b"APPEND": lambda r: [b"s", _word(r)],
    b"RPUSH": lambda r: [b"l", *_words(r)],
    b"LPUSH": lambda r: [b"l", *_words(r)],
    b"LPOP": lambda r: [b"l", *r.choice(([], [b"2"], [b"9"]))],
    b"RPOP": lambda _: [b"l"],
    b"LTRIM": lambda r: [b"l", b"%d" % r.randint(-6, 2), b"%d" % r.randint(-2, 6)],
    b"HSET": lambda r: [b"h", *(part for field in _words(r) for part in (field, _word(r)))],
    b"HDEL": lambda r: [b"h", *_words(r)],
    b"HINCRBY": lambda r: [b"h", _word(r), b"%d" % r.randint(-9, 9)],
    b"SADD": lambda r: [b"e", *_words(r)],
    b"SREM": lambda r: [b"e", *_words(r)],
    b"ZADD": lambda r: [b"z", *(part for member in _words(r) for part in (_score(r), member))],
    b"ZINCRBY": lambda r: [b"z", _score(r), _word(r)],
    b"ZREM": lambda r: [b"z", *_words(r)],
    b"ZPOPMIN": lambda r: [b"z", *r.choice(([], [b"2"]))],
    b"ZPOPMAX": lambda r: [b"z", *r.choice(([], [b"2"]))],
    b"SUNIONSTORE": lambda r: [r.choice((b"e", b"u")), b"e", r.choice((b"e", b"u"))],
    b"SDIFFSTORE": lambda r: [r.choice((b"e", b"u")), b"u", b"e"],
    b"RENAME": lambda r: [_kind(r), _kind(r)],
    b"COPY": lambda r: [_kind(r), _kind(r), *r.choice(([], [b"REPLACE"]))],
    b"HSETEX": lambda r: [b"h", b"PX", _lifetime_ms(r), *_counted(_words(r), lambda field: (field, _word(r)))],
    b"HPEXPIRE": lambda r: [b"h", r.choice((b"0", *(_lifetime_ms(r),) * 9)), *_counted(_words(r))],
    b"HPERSIST": lambda r: [b"h", *_counted(_words(r))],
    b"HGETEX": lambda r: [b"h", *r.choice(([b"PERSIST"], [b"PX", _lifetime_ms(r)])), *_counted(_words(r))],
    b"HGETDEL": lambda r: [b"h", *_counted(_words(r))],
    b"SETBIT": lambda r: [b"b", b"%d" % r.choice(_BITS), r.choice((b"0", b"1"))],
    b"BITFIELD": lambda r: [
        b"b",
        r.choice((b"SET", b"INCRBY")),
        b"u8",
        b"#%d" % r.randrange(9),
        b"%d" % r.randrange(99),
    ],
    b"BITOP": lambda r: r.choice(([b"NOT", _bits(r), _bits(r)], [r.choice(_BITWISE), _bits(r), _bits(r), _bits(r)])),
    b"PFADD": lambda r: [_registers(r), *_words(r)],
    b"PFMERGE": lambda r: [_registers(r), _registers(r)],
    b"GEOADD": lambda r: [b"g", *(part for member in _words(r) for part in (*_place(r), member))],
    b"GEOSEARCHSTORE": lambda r: [
        r.choice((b"g", b"z")),
        b"g",
        *(b"FROMLONLAT", *_place(r), b"BYRADIUS", r.choice((b"0", b"90000", b"900000")), b"M"),
    ],
    **STREAMS,
    b"DEL": lambda r: [_kind(r)],
    b"EXPIRE": lambda r: [_kind(r), b"%d" % r.choice((-1, 1, 10, 60, 600))],
    b"PERSIST": lambda r: [_kind(r)],
}
_KEYS_OF: Final = {
    **dict.fromkeys((b"SUNIONSTORE", b"SDIFFSTORE"), (0, 3)),
    **dict.fromkeys((b"RENAME", b"COPY", b"PFMERGE", b"GEOSEARCHSTORE"), (0, 2)),
    b"BITOP": (1, 4),
    b"XREADGROUP": (6, 7),
}
"""Which arguments are keys: from here on, before there. Of the others the first one is."""

_NAMES: Final = (
    *_MAKERS,
    *(b"INCR", b"APPEND", b"RPUSH", b"ZADD", b"HSET", b"SADD", b"PEXPIREAT"),
    *(b"HSETEX", b"HSETEX", b"HPEXPIREAT", b"SETBIT", b"PFADD", b"GEOADD"),
    *(b"XADD", b"XADD", b"XADD", b"XREADGROUP", b"XREADGROUP"),
)
_HELD: Final = tuple(b"PEXPIREAT" if name in refused_commands() else name for name in _NAMES)
"""What is drawn from: what the layout cannot hold is another key that gets a time to live."""


class Command(NamedTuple):
    """What is to be applied. `db` is 0 in cluster mode."""

    name: bytes
    args: Args
    db: int
    event_id: bytes | None


class Poison(NamedTuple):
    """What must become a dead letter. With `time_ms` it is the record's time that is wrong."""

    what: str
    time_ms: int | None = None


class Stopper(NamedTuple):
    """What an engine of these rules must stop at, until an operator skips it."""


Intent = Command | Poison | Stopper

TICK: Final = Command(b"TICK", [], 0, None)
"""What the service itself appends."""


class Event(NamedTuple):
    """One record to append, and what it is meant to do. `partitions`: where to; several for an event without keys."""

    intent: Intent
    partitions: list[int]
    key: bytes | None
    value: bytes | None

    @property
    def resendable(self) -> bool:
        """Whether it carries an id, so that it may be sent again."""
        return isinstance(self.intent, Command) and self.intent.event_id is not None


class Events:
    """Makes events for a log of `partitions` partitions.

    Args:
        now_ms: the log's time, for absolute expire times.
        with_scripts: some events are scripts.
    """

    def __init__(self, random: Random, partitions: int, now_ms: Callable[[], int], *, with_scripts: bool) -> None:
        self._random = random
        self._with_scripts = with_scripts
        self._partitions = partitions
        self._now_ms = now_ms
        self._made = 0

    def next(self) -> Event:
        """The next event."""
        random = self._random
        self._made += 1
        kind = random.randrange(100)
        if kind == 0:
            return Event(Stopper(), [random.randrange(self._partitions)], None, encode(b"RULES", [b"99"]))
        if kind < 8:
            return self._poison()
        if kind < 11:
            return self._keyless()
        tag = random.choice(TAGS)
        key = slot(tag).to_bytes(2, "big")
        return self._event(*self._of_tag(tag), [partition_of(slot(tag), self._partitions)], key)

    def _of_tag(self, tag: bytes) -> tuple[bytes, Args]:
        random = self._random
        if random.randrange(8):
            return self._command_or_script(tag)
        steps = (self._command_or_script(tag) for _ in range(random.randrange(5)))
        return b"EXEC", [[name, *args] for name, args in steps]

    def _command_or_script(self, tag: bytes) -> tuple[bytes, Args]:
        random = self._random
        if not self._with_scripts or random.randrange(4):
            return self._command(tag)
        steps = (self._command(tag) for _ in range(random.randrange(4)))
        rest = [b"1", tag + b"s", *scripted.arguments([name, *args] for name, args in steps)]
        if random.randrange(3) == 0:
            return b"FCALL", [random.choice(scripted.FUNCTIONS), *rest]
        source = random.choice(scripted.SOURCES)
        return (b"EVALSHA", [digest_of(source), *rest]) if random.randrange(2) else (b"EVAL", [source, *rest])

    def _command(self, tag: bytes) -> tuple[bytes, Args]:
        name = self._random.choice(_HELD)
        first, end = _KEYS_OF.get(name, (0, 1))
        if name in _MAKERS:
            args = _MAKERS[name](self._random)
        else:
            fields = _counted(_words(self._random)) if name == b"HPEXPIREAT" else []
            moment = b"%d" % (self._now_ms() + self._random.randint(-10, 30_000))
            args = [b"h" if fields else _kind(self._random), moment, *fields]
        if self._random.randrange(20) == 0:
            args[first] = _kind(self._random)  # mostly the wrong type
        return name, [*args[:first], *(tag + key for key in args[first:end]), *args[end:]]

    def _keyless(self) -> Event:
        name = self._random.choice((b"TICK",) * 6 + (b"FLUSHDB", b"FLUSHALL") + _OF_SCRIPTS * self._with_scripts)
        args = _SCRIPTS_AND_LIBRARIES[name](self._random) if name in _SCRIPTS_AND_LIBRARIES else []
        return self._event(name, args, list(range(self._partitions)), None)

    def _event(self, name: bytes, args: Args, partitions: list[int], key: bytes | None) -> Event:
        random = self._random
        event_id = b"id %d" % self._made if random.randrange(2) else None
        db = max(0, random.randrange(12) - 9) if self._partitions == 1 else 0
        shown = name.lower() if random.randrange(10) == 0 else name
        return Event(Command(name, args, db, event_id), partitions, key, encode(shown, args, id=event_id, db=db))

    def _poison(self) -> Event:
        what = self._random.choice(_ALL_POISON if self._partitions == 1 else _ALL_POISON + _CLUSTER_POISON)
        tag = self._random.choice(TAGS)
        home = partition_of(slot(tag), self._partitions)
        stranger = (home + 1) % self._partitions
        key = tag + b"s"
        values: dict[str, bytes | None] = {
            "no value": None,
            "noise": self._random.randbytes(12),
            "cut short": encode(b"SET", [key, b"1"])[:-1],
            "version": packb({"v": 2, "cmd": "SET", "args": [key, "1"]}),
            "unknown command": encode(b"NOSUCH", [key]),
            # An id that is never remembered, as nothing was applied: the next event has it, too.
            "arity": encode(b"INCR", [key, b"2"], id=b"id %d" % (self._made + 1)),
            "arity in exec": encode(b"EXEC", [[b"APPEND", key, b"x"], [b"INCR"]]),
            "physical": encode(b"EXEC", [[b"APPEND", key, b"x"], [b"DBSIZE"]]),
            "time": encode(b"APPEND", [key, b"x"]),
            "stranger": encode(b"APPEND", [key, b"x"]),
            "slots": encode(b"EXEC", [[b"INCR", b"{a}n"], [b"INCR", b"{b}n"]]),
            "db": encode(b"APPEND", [key, b"x"], db=1),
        }
        wrong_time = self._random.choice((-1, TIME_MS_MAX + 1)) if what == "time" else None
        partition = stranger if what == "stranger" else home
        return Event(Poison(what, wrong_time), [partition], slot(tag).to_bytes(2, "big"), values[what])


_SCRIPTS_AND_LIBRARIES: Final[dict[bytes, Callable[[Random], Args]]] = {
    b"SCRIPT|LOAD": lambda random: [random.choice(scripted.SOURCES)],
    b"SCRIPT|FLUSH": lambda _: [],
    b"FUNCTION|LOAD": lambda random: [b"REPLACE"] * random.randrange(2) + [random.choice([*scripted.LIBRARIES])],
    b"FUNCTION|DELETE": lambda random: [random.choice((b"first", b"second", b"third"))],
    b"FUNCTION|FLUSH": lambda _: [],
    b"FUNCTION|RESTORE": lambda random: [
        random.choice([*scripted.PAYLOADS]),
        random.choice((b"FLUSH", b"APPEND", b"REPLACE")),
    ],
}
_OF_SCRIPTS: Final = (
    *(b"SCRIPT|LOAD", b"SCRIPT|FLUSH", b"FUNCTION|LOAD", b"FUNCTION|LOAD", b"FUNCTION|LOAD"),
    *(b"FUNCTION|DELETE", b"FUNCTION|RESTORE", b"FUNCTION|RESTORE", b"FUNCTION|FLUSH"),
)
_ALL_POISON: Final = (
    *("no value", "noise", "cut short", "version", "unknown command"),
    *("arity", "arity in exec", "physical", "time"),
)
_CLUSTER_POISON: Final = ("stranger", "slots", "db")


def _word(random: Random) -> bytes:
    return random.choice(_WORDS)


def _words(random: Random) -> list[bytes]:
    return [_word(random) for _ in range(random.randint(1, 3))]


def _score(random: Random) -> bytes:
    return random.choice((b"0", b"1", b"-1", b"1.5", b"-2.25", b"1e3"))


def _kind(random: Random) -> bytes:
    return random.choice((b"s", b"n", b"l", b"h", b"e", b"u", b"z", b"b", b"p", b"g", b"x"))


def _lifetime_ms(random: Random) -> bytes:
    return b"%d" % random.choice((random.randint(1, 500), random.randint(1, 90_000)))


def _counted(fields: list[bytes], spread: Callable[[bytes], tuple[bytes, ...]] = lambda field: (field,)) -> Args:
    """FIELDS, how many they are, and each of them."""
    return [b"FIELDS", b"%d" % len(fields), *(part for field in fields for part in spread(field))]


def _bits(random: Random) -> bytes:
    return random.choice((b"b", b"b", b"c", b"s"))


def _registers(random: Random) -> bytes:
    return random.choice((b"p", b"p", b"q"))


def _place(random: Random) -> tuple[bytes, bytes]:
    return random.choice(_PLACES)
