"""Random values as Lua writes them, of the kinds that scripts pack and encode."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.engine.scripts.libraries.comparison import quoted

NUMBERS: Final = (
    *("0", "-0.0", "1", "-1", "31", "32", "-32", "-33", "127", "128", "-128", "-129", "255", "256", "-32768", "-32769"),
    *("65535", "65536", "2^31", "2^31-1", "-2^31", "-2^31-1", "2^32", "2^32-1", "2^53", "2^63", "2^63-1024", "-2^63"),
    *("-2^63-2048", "2^64", "2^64-2048", "1e300", "-1e300", "0.1", "-0.1", "0.5", "1.5", "-1.5", "1/3"),
    *("16777217", "16777217.5", "16777219", "123456789012345678", "12345678901234.5", "1e14", "1e15", "1700000000000"),
    *("3.4e38", "3.5e38", "1.1754942e-38", "1.4e-45", "0.7e-45", "1e-310", "5e-324", "0/0", "-(0/0)", "1/0", "-1/0"),
)
"""At the limits of each form that a number is written in."""

_NAMES: Final = ("a", "b", "id", "name", "delay", "attempts", "timestamp")
_KEYS: Final = ("1", "2", "3", "4", "5", "9", "12", "0", "-1", "1.5", "2^31", "2^40", "1/0", "true")
_OTHERS: Final = ("true", "false", "nil", "cjson.null", "tostring")
_DEEPEST: Final = 5


def number(random: Random) -> str:
    """Mostly a small whole one."""
    return random.choice(NUMBERS) if random.random() < 0.3 else str(random.randint(-70_000, 70_000))


def text(random: Random) -> str:
    """Any bytes, with many that JSON escapes."""
    length = random.choice((0, 1, 3, 12, 31, 32, 33))
    return quoted(bytes(random.choice((random.randrange(256), *b'"\\/\b\n\0\x7f')) for _ in range(length)))


def value(random: Random, depth: int = 0, *, keys_max: int) -> str:
    """A number, a string, another value, an array, or a table with up to `keys_max` keys of any kind."""
    kind = random.random()
    if kind < 0.3 or depth == _DEEPEST:
        return number(random)
    if kind < 0.5:
        return text(random)
    if kind < 0.6:
        return random.choice(_OTHERS)
    items = range(random.randint(0, 6))
    if kind < 0.8:
        return f"{{{','.join(value(random, depth + 1, keys_max=keys_max) for _ in items)}}}"
    fields = (f"{_key(random)}={value(random, depth + 1, keys_max=keys_max)}" for _ in items[:keys_max])
    return f"{{{','.join(fields)}}}"


def _key(random: Random) -> str:
    return random.choice(_NAMES) if random.random() < 0.6 else f"[{random.choice(_KEYS)}]"
