"""Hypothesis strategies for whole sequences, derived from the registry: a registered command takes part by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import engine.commands  # noqa: F401 - fills the registry
from engine.registry import SPECS, Spec
from tests.differential.grammar import Argument, Line, Literal, parse
from tests.differential.vocabulary import ALL_KEYS, KEYS, ODD, STRAY, Later, Value, kind_of

SLOTLOGS_OWN: Final = frozenset({b"TICK", b"RULES"})
"""Commands that Redis does not have: nothing to compare with."""

GROUPS: Final = ("string", "hash", "list", "set", "sorted-set", "generic", "server")
STEPS_MAX: Final = 99

_MAKERS: Final = {
    "string": (b"SET",),
    "hash": (b"HSET",),
    "list": (b"RPUSH",),
    "set": (b"SADD",),
    "sorted-set": (b"ZADD",),
}
_ALL_MAKERS: Final = (*(name for names in _MAKERS.values() for name in names), b"SETEX", b"PSETEX", b"EXPIRE")
_FLAT_KEYS: Final = frozenset(KEYS["lex"])
_DISTURBANCES: Final = ("",) * 20 + ("lower", "unknown", *("cut",) * 4, *("stray",) * 3, *("odd",) * 2)
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


class Step(NamedTuple):
    """What happens, in which database, and whether the engine applies (1) or also commits (2) the batch after it."""

    what: Command | Transaction | Lapse
    db: int
    after: int


@cache
def participants() -> dict[bytes, Spec]:
    """Every command that can be compared, by its name and in order of names."""
    return {name: spec for name, spec in sorted(SPECS.items()) if name not in SLOTLOGS_OWN}


def members_of(group: str) -> tuple[bytes, ...]:
    """The commands of one of `GROUPS`."""
    return tuple(name for name, spec in participants().items() if spec.group == group)


@st.composite
def sequences(draw: DrawFn, group: str) -> list[Step]:
    """Up to `STEPS_MAX` steps that mostly belong to `group`.

    Hypothesis draws one seed and the rest comes from it. Drawn one by one, most sequences were near copies of another
    (it tries each one five times more with a part of it doubled), and generating them took most of the time.
    """
    random = draw(st.randoms(use_true_random=True))
    names = _names(group)
    # No EXEC event contains a command that counts keys which are due as well (docs/differences.md).
    logged = tuple(name for name in names if not SPECS[name].physical)
    return [_step(random, names, logged) for _ in range(random.randint(1, STEPS_MAX))]


def _step(random: Random, names: tuple[bytes, ...], logged: tuple[bytes, ...]) -> Step:
    kind = random.randrange(20)
    what: Command | Transaction | Lapse
    if kind == 0:
        what = Transaction(tuple(_command(random, random.choice(logged)) for _ in range(random.randrange(5))))
    elif kind == 1:
        what = Lapse(random.choice(ALL_KEYS))
    else:
        what = _command(random, random.choice(names))
    # Databases other than 0 and ends of batches are rare, so that commands meet each other in the same batch.
    return Step(what, max(0, random.randrange(25) - 23), max(0, random.randrange(10) - 7))


@cache
def _names(group: str) -> tuple[bytes, ...]:
    """What a sequence of `group` draws from: mostly its own commands, a third that gives them something to work on."""
    own, others = members_of(group), tuple(participants())
    makers = _MAKERS.get(group, _ALL_MAKERS)
    # At most 40 times each: of three commands two empty whole databases.
    return own * min(40, 1000 // len(own)) + makers * (500 // len(makers)) + others * 3


def _command(random: Random, name: bytes) -> Command:
    spec = participants()[name]
    args = _line(random, spec, _parsed(spec.usage), b"")
    disturbance = random.choice(_DISTURBANCES)
    if disturbance:
        name, args = _disturbed(random, disturbance, name, args)
    direct = not spec.write and random.randrange(3) == 2
    return Command(name, tuple(args), direct)


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
            values.append(node.word.encode())
        elif isinstance(node, Argument):
            value = _argument(random, spec, node.word, key)
            values.append(value)
            if node.word == "key" and isinstance(value, bytes):
                key = value
        else:
            for _ in range(random.randrange(4) if node.repeats else random.randrange(3) == 0):
                values += _line(random, spec, random.choice(node.alternatives), key)
    return values


def _argument(random: Random, spec: Spec, word: str, key: bytes) -> Value:
    if word == "key":
        return random.choice(_keys_of(spec))
    if key in _FLAT_KEYS and word in {"score", "increment"}:
        return b"0"
    kind = kind_of(spec.name.decode(), word)
    return random.choice(kind.usual if random.randrange(8) else kind.unusual)


@cache
def _parsed(usage: str) -> Line:
    return parse(usage)


@cache
def _keys_of(spec: Spec) -> tuple[bytes, ...]:
    """The keys that a command draws from: mostly those of its own type."""
    if spec.group not in KEYS:
        return ALL_KEYS
    lexical = b"LEX" in spec.name
    own = KEYS["lex"] if lexical else KEYS[spec.group] + (KEYS["lex"] if spec.group == "sorted-set" else ())
    return own * (1 + 6 * len(ALL_KEYS) // len(own)) + ALL_KEYS


def rendered(args: Sequence[Value], place: int) -> list[bytes]:
    """The arguments as bytes, for the command at `place` in its sequence."""
    return [value.spread(place) if isinstance(value, Later) else value for value in args]
