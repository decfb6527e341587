"""Hypothesis strategies for whole sequences, derived from the registry: a registered command takes part by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import engine.commands  # noqa: F401 - fills the registry
from engine.commands.registry import SPECS, Spec
from engine.commands.usage import KEY_WORDS, Argument, Choice, Line, Literal, parse
from engine.layouts.layout import Form
from tests.differential.loose import SORTS
from tests.differential.vocabulary import ALL_KEYS, INSTEAD, KEYS, ODD, STRAY, Later, Value, kind_of
from tests.layouts import holds, refused_commands

STEPS_MAX: Final = 99

_MAKERS: Final = {
    "string": (b"SET",),
    "bitmap": (b"SET", b"SETBIT"),
    "hyperloglog": (b"PFADD", b"PFADD", b"SET"),
    "geo": (b"GEOADD", b"GEOADD", b"ZADD"),
    "hash": (b"HSET",),
    "list": (b"RPUSH",),
    "set": (b"SADD",),
    "sorted-set": (b"ZADD",),
    "stream": (*(b"XADD",) * 3, *(b"XGROUP|CREATE",) * 3, *(b"XREADGROUP",) * 4),
}
_TIMED: Final = (b"SETEX", b"PSETEX", *(b"EXPIRE",) * 3)
_ALL_MAKERS: Final = (*(name for names in _MAKERS.values() for name in names), *_TIMED)
_KEYS_LIKE: Final = {"bitmap": "string"}
"""Groups that work on the keys of another one."""

_OF_TIMED: Final = frozenset({b"PERSIST", b"EXPIRETIME", b"PEXPIRETIME"})
"""Commands for keys that have a time to live, which strings have most often."""

_FIELDS: Final = tuple(field for field in kind_of("HSET", "field").usual if isinstance(field, bytes))
_FLAT_KEYS: Final = frozenset(KEYS["lex"])
_DISTURBANCES: Final = ("",) * 20 + ("lower", "unknown", *("cut",) * 4, *("stray",) * 3, *("odd",) * 2)
_A_KEY: Final = (Argument("key"),)
_UNKNOWN: Final = (b"NOSUCH", b"get ", b"\xff")


class Command(NamedTuple):
    """One command. `direct`: a read is run between two events, not as one."""

    name: bytes
    args: tuple[Value, ...]
    direct: bool = False


class Transaction(NamedTuple):
    """An EXEC of these commands."""

    commands: tuple[Command, ...]


class Lapse(NamedTuple):
    """A key's time comes: on the engine its clock passes the key's expire time, on the oracle the key is deleted."""

    key: bytes


class FieldLapse(NamedTuple):
    """A field's time comes: on the engine its clock passes it, on the oracle the field is deleted."""

    key: bytes
    field: bytes


class Step(NamedTuple):
    """What happens, in which database, and whether the engine applies (1) or also commits (2) the batch after it."""

    what: Command | Transaction | Lapse | FieldLapse
    db: int
    after: int


def is_apart(spec: Spec) -> bool:
    """Whether a command is about sessions, databases or scripts, or slotlog's own event: other tests have those."""
    apart = spec.sessional or spec.internal or (spec.standalone and spec.keyless)
    return apart or spec.group == "scripting"


@cache
def participants() -> dict[bytes, Spec]:
    """Every command that can be compared, by its name and in order of names: Redis has it, too, and the layout."""
    refused = refused_commands()
    compared = {name: spec for name, spec in sorted(SPECS.items()) if spec.of == "redis" and not is_apart(spec)}
    return {name: spec for name, spec in compared.items() if name not in refused}


GROUPS: Final = tuple(sorted({spec.group for spec in participants().values()}))
"""Every group of the registry that has a command to compare."""


def members_of(group: str) -> tuple[bytes, ...]:
    """The commands of one of `GROUPS`."""
    return tuple(name for name, spec in participants().items() if spec.group == group)


@st.composite
def sequences(draw: DrawFn, group: str) -> list[Step]:
    """Up to `STEPS_MAX` steps that mostly belong to `group`.

    Hypothesis draws one seed and the rest comes from it. Drawn one by one, most sequences were near copies of another
    (it tries each one five times more with a part of it doubled), and generating them took most of the time.
    """
    return random_steps(draw(st.randoms(use_true_random=True)), group)


def random_steps(random: Random, group: str) -> list[Step]:
    """Up to `STEPS_MAX` steps that mostly belong to `group`: the same ones from the same seed."""
    names = _names(group)
    # No EXEC event contains a command that counts keys which are due as well (docs/differences.md).
    logged = tuple(name for name in names if not SPECS[name].physical)
    return [_step(random, names, logged) for _ in range(random.randint(1, STEPS_MAX))]


def _step(random: Random, names: tuple[bytes, ...], logged: tuple[bytes, ...]) -> Step:
    kind = random.randrange(20)
    what: Command | Transaction | Lapse | FieldLapse
    if kind == 0:
        what = Transaction(tuple(_command(random, random.choice(logged)) for _ in range(random.randrange(5))))
    elif kind == 1:
        what = Lapse(random.choice(ALL_KEYS))
    elif kind == 2 and names is _names("hash") and holds(Form.FIELD_TIMES):
        what = FieldLapse(random.choice(KEYS["hash"]), random.choice(_FIELDS))
    elif kind in {3, 4} and names is _names("stream"):
        what = _delivery(random.choice(KEYS["stream"]))
    elif kind == 3 and names is _names("string") and random.randrange(8) == 0:
        key = random.choice(KEYS["string"])  # what is deleted only if it equals something mostly does not
        what = Transaction((Command(b"SET", (key, b"1")), Command(b"DELIFEQ", (key, b"1"))))
    elif kind == 3 and names is _names("sorted-set") and random.randrange(8) == 0:
        key = random.choice(KEYS["sorted-set"])  # a member that is asked for is mostly not there
        rank = random.choice((b"ZRANK", b"ZREVRANK"))
        what = Transaction((Command(b"ZADD", (key, b"1", b"a")), Command(rank, (key, b"a"))))
    else:
        what = _command(random, random.choice(names))
    # Databases other than 0 and ends of batches are rare, so that commands meet each other in the same batch.
    return Step(what, max(0, random.randrange(25) - 23), max(0, random.randrange(10) - 7))


def _delivery(key: bytes) -> Transaction:
    """A new stream with a group, in which a consumer has got two entries."""
    add = Command(b"XADD", (key, b"4-*", b"a", b"1"))
    group = Command(b"XGROUP|CREATE", (key, b"crew", b"0"))
    read = Command(b"XREADGROUP", (b"GROUP", b"crew", b"ann", b"STREAMS", key, b">"))
    return Transaction((Command(b"DEL", (key,)), add, add, group, read))


@cache
def _names(group: str) -> tuple[bytes, ...]:
    """What a sequence of `group` draws from: mostly its own commands, a third that gives them something to work on."""
    own, others = members_of(group), tuple(participants())
    makers = tuple(name for name in _MAKERS.get(group, _ALL_MAKERS) if name in participants())
    # At most 40 times each: of three commands two empty whole databases.
    if not own:
        return ()  # a group that the layout has no place for
    return own * min(40, 1000 // len(own)) + makers * (500 // len(makers)) + others * 3


def random_command(random: Random, name: bytes) -> Command:
    """A command of that name with random arguments that its usage line allows."""
    spec = participants()[name]
    values = _line(random, spec, line_of(spec), b"")
    if name == b"SORT" and b"STORE" in values and b"BY" in values:
        at = values.index(b"BY")  # the order of elements of equal weight is open, and would be stored
        del values[at : at + 2]
    if spec.group == "geo" and b"STOREDIST" in values:
        at = values.index(b"STOREDIST")  # the last bit of the oracle's distances is open, and would be stored
        values[at : at + 1] = [] if name == b"GEOSEARCHSTORE" else [b"STORE"]
    if name == b"XGROUP|CREATE" and len(values) == len((b"key", b"group", b"id")):
        values.append(b"MKSTREAM")
    if name in {b"XREAD", b"XREADGROUP"}:
        _do_not_wait(values)
        _balance(random, spec, values)
    return Command(name, tuple(values))


def _do_not_wait(values: list[Value]) -> None:
    """Take BLOCK out: on its own connection the oracle would wait."""
    if b"BLOCK" in values:
        at = values.index(b"BLOCK")
        del values[at : at + 2]


def _balance(random: Random, spec: Spec, values: list[Value]) -> None:
    """Give XREAD and XREADGROUP few keys, and mostly as many ids."""
    at = values.index(b"STREAMS") + 1
    keys = [value for value in values[at:] if value in ALL_KEYS] or [random.choice(_keys_of(spec.name))]
    keys = keys[: random.choice((1, 1, 1, 4))]  # each has to have the group
    if random.randrange(12):
        values[at:] = [*keys, *(_argument(random, spec, "id", b"") for _ in keys)]


def _command(random: Random, name: bytes) -> Command:
    args = list(random_command(random, name).args)
    direct = not participants()[name].write and random.randrange(3) == 2
    disturbance = random.choice(_DISTURBANCES)
    if name == b"ZRANGESTORE":
        _store_what_is_certain(random, args)
    # What ZREMRANGEBYLEX deletes of members with different scores is open, so nothing odd may give them any.
    if disturbance and (direct or not args or (args[0] not in _FLAT_KEYS and name != b"ZRANGESTORE")):
        name, args = _disturbed(random, disturbance, name, args)
    if name.upper() == b"SORT" and b"STORE" in args and b"ALPHA" not in args:
        args.append(b"ALPHA")  # what is a number differs from that of the oracle, and so would what is stored
    return Command(name, tuple(args), direct)


def _store_what_is_certain(random: Random, args: list[Value]) -> None:
    """What a range of members with different scores stores is open: BYLEX gets a key in which all are equal."""
    if b"BYLEX" in args:
        args[1] = random.choice(KEYS["lex"])
        args[2:4] = [random.choice(kind_of("ZRANGEBYLEX", word).usual) for word in ("min", "max")]


def _disturbed(random: Random, disturbance: str, name: bytes, args: list[Value]) -> tuple[bytes, list[Value]]:
    """The same command with one thing about it wrong, or at least odd."""
    at = random.randrange(len(args) + 1)
    if disturbance == "lower":
        return name.lower(), args
    if disturbance == "unknown":
        return random.choice(_UNKNOWN), args
    if disturbance == "cut":
        # Without any argument most often: some commands can fail in no other way.
        return name, args[: max(0, 2 * at - len(args) - 1)]
    if disturbance == "stray":
        return name, [*args[:at], random.choice(STRAY), *args[at:]]
    return name, [*args[:at], random.choice(ODD), *args[at + 1 :]]


def _line(random: Random, spec: Spec, line: Line, key: bytes) -> list[Value]:
    """Values for the nodes of a usage line; `key` is the first one that was chosen."""
    values: list[Value] = []
    for node in line:
        if isinstance(node, Literal):
            values.append(INSTEAD.get(node.word, node.word).encode())
        elif isinstance(node, Argument):
            value = _argument(random, spec, node.word, key)
            values.append(value)
            if node.word in KEY_WORDS and isinstance(value, bytes):
                key = key or value
        elif isinstance(node, Choice):
            values += _line(random, spec, random.choice(node.alternatives), key)
            if b"BYPOLYGON" in values and random.randrange(8):
                at = values.index(b"BYPOLYGON") + 1
                values[at] = b"%d" % ((len(values) - at - 1) // 2)
        else:
            for _ in range(random.randrange(4) if node.repeats else random.randrange(3) == 0):
                values += _line(random, spec, random.choice(node.alternatives), key)
            if node.repeats and "numfields" in spec.usage and random.randrange(8):
                at = values.index(b"FIELDS") + 1
                values[at] = b"%d" % ((len(values) - at - 1) // (2 if spec.name == b"HSETEX" else 1))
            if node.alternatives[0][:1] == _A_KEY and spec.key_count >= 0 and random.randrange(8):
                values[spec.key_count] = b"%d" % ((len(values) - 1 - spec.key_count) // spec.key_step)
    return values


def _argument(random: Random, spec: Spec, word: str, key: bytes) -> Value:
    if word in {"destination", "newkey"}:
        return random.choice([key for key in _keys_of(spec.name) if key not in _FLAT_KEYS])
    if word in KEY_WORDS:
        return random.choice(_keys_of(spec.name))
    if key in _FLAT_KEYS and word in {"score", "increment"}:
        return b"0"
    kind = kind_of(spec.name.decode(), word)
    return random.choice(kind.usual if random.randrange(8) else kind.unusual)


def line_of(spec: Spec) -> Line:
    """The nodes of a command's usage line; the words of its name aside."""
    return parse(" ".join(spec.usage.split(" ")[1 + spec.name.count(b"|") :]))


@cache
def _keys_of(name: bytes) -> tuple[bytes, ...]:
    """The keys that a command draws from: mostly those of its own type."""
    spec = participants()[name]
    group = "string" if name in _OF_TIMED else _KEYS_LIKE.get(spec.group, spec.group)
    if name in SORTS:  # the oracle turns a sorted set into its large encoding, in which further replies are open
        return (KEYS["list"] + KEYS["set"]) * 12 + KEYS["string"] + KEYS["none"]
    if group not in KEYS:
        return ALL_KEYS
    if name == b"ZREMRANGEBYLEX":  # what it deletes of members with different scores is open
        return KEYS["lex"] * 12 + KEYS["list"] + KEYS["none"]
    lexical = b"LEX" in spec.name
    own = KEYS["lex"] if lexical else KEYS[group] + (KEYS["lex"] if group == "sorted-set" else ())
    return own * (1 + 6 * len(ALL_KEYS) // len(own)) + ALL_KEYS


def rendered(args: Sequence[Value], place: int) -> list[bytes]:
    """The arguments as bytes, for the command at `place` in its sequence."""
    return [value.spread(place) if isinstance(value, Later) else value for value in args]
