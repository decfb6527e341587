"""What the arguments of random commands are: per word of a usage line, values weighted so that all paths are taken.

Few keys, so that commands meet; beside the usual values the empty, the binary, the huge and the malformed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.numbers import INT_MAX, INT_MIN


class Later(NamedTuple):
    """A relative time, far enough away that nothing dies while a test runs.

    The oracle's clock runs on between two commands, the engine's does not. So no two of these are alike: `spread` turns
    one into digits that grow with the command's place, and GT and LT compare times that are far apart on both sides.
    """

    seconds: int
    unit: int

    def spread(self, place: int) -> bytes:
        """The digits, in units of 1/`unit` s, of the command at `place` in its sequence."""
        return b"%d" % ((self.seconds + 1000 * place) * self.unit)


Value = bytes | Later
Values = tuple[Value, ...]

SPREAD_S: Final = 20
"""Times that come from `Later` may differ by this much between engine and oracle."""

EXACT_FROM_MS: Final = 4_102_444_800_000  # the year 2100: absolute times begin here, relative ones end before
EXACT_UNTIL_MS: Final = 5_000_000_000_000

# ---------------------------------------------------------------------------------------------------------------- keys

KEYS: Final[dict[str, tuple[bytes, ...]]] = {
    "string": (b"s1", b"s2", b"s{1}3", b""),
    "hash": (b"h1", b"h2", b"\x00h\xff\r\n"),
    "list": (b"l1", b"l2", b"{l}3"),
    "set": (b"e1", b"e2", b"a long key " * 6),
    "sorted-set": (b"z1", b"z2", b"z 3"),
    "lex": (b"lex1", b"lex2"),
    "none": (b"none",),
}
"""Keys by the type that they mostly have. Every member of a `lex` key has the score 0, as its commands ask for."""

ALL_KEYS: Final = tuple(key for keys in KEYS.values() for key in keys)

# -------------------------------------------------------------------------------------------------------------- values

_INT_MAX: Final = b"%d" % INT_MAX
_INT_MIN: Final = b"%d" % INT_MIN
_BEYOND: Final = b"%d" % (INT_MAX + 1)
_MALFORMED: Final = (b"", b"abc", b"+1", b" 1", b"1 ", b"01", b"-0", b"1.0", b"1e3", b"0x1", b"1\x00", _BEYOND)


class Kind(NamedTuple):
    """The values of one kind of argument: those that mostly work, and those that fail, or are rare."""

    usual: Values
    unusual: Values


_CONTENT: Final = Kind(
    (
        *(b"1", b"2", b"10", b"-5") * 3,
        b"3.5",
        b"-1.25",
        b"hello",
        b"world",
        b"abc",
        b"",
        b"\x00\xff\r\n",
        b"long value " * 10,
    ),
    (b" 1", b"1e10", b"inf", b"nan", b"0x10", b"0.1", _INT_MAX, _INT_MIN, _BEYOND, b"x" * 5000, *_MALFORMED),
)
_FIELD: Final = Kind((b"a", b"b", b"c", b"d", b"1"), (b"", b"30", b"\x00\xff\r\n", b"field " * 12))
_MEMBER: Final = Kind(
    (b"a", b"b", b"c", b"d", b"aa", b"1", b"2"), (b"", b"ab", b"B", b"30", b"\x00", b"\xff\xff", b"member " * 10)
)
_INDEX: Final = Kind(
    (b"0", b"1", b"2", b"-1", b"-2", b"-3"), (b"3", b"-5", b"100", b"-100", _INT_MAX, _INT_MIN, *_MALFORMED)
)
_COUNT: Final = Kind((b"1", b"1", b"2", b"3"), (b"0", b"10", b"-1", b"-2", _INT_MAX, _INT_MIN, *_MALFORMED))
_DELTA: Final = Kind((b"1", b"-1", b"10", b"-7", b"0"), (_INT_MAX, _INT_MIN, b"-9223372036854775807", *_MALFORMED))
_ODD_FLOATS: Final = (
    *(b"inf", b"-inf", b"+inf", b"nan", b"-0", b"1e308", b"1.7e308", b"1e-320", b"1e400", b"1e5000", b"0x1p3"),
    *(b"", b"abc", b" 1", b"1 ", b"1_0", b".5", b"5.", b".", b"1e", b"--1", b"1\x00", b"infinity", b"INF"),
    *(b"9007199254740993", _INT_MAX, b"1" * 60, b"0." + b"3" * 60),
)
_FLOAT: Final = Kind(
    (b"1", b"-1", b"0.1", b"1.5", b"-2.25", b"3.0e3", b"0", b"5e-3", b"1e17", b"123456789.123456789"), _ODD_FLOATS
)
_SCORE: Final = Kind((b"0", b"1", b"2", b"3", b"-1"), (*_FLOAT.usual, *_ODD_FLOATS))
_BOUND: Final = Kind(
    (b"-inf", b"+inf", b"0", b"1", b"2", b"(0", b"(1", b"-1", b"3"),
    (b"inf", b"(inf", b"(-inf", b"(", b"", b"abc", b"nan", b"1.5", b"(1.5", b"-0", b"1e400", b" 1", b"0x1", b"1\x00"),
)
_LOW: Final = Kind((b"-inf", b"(-inf", b"-1", b"0", b"(0"), _BOUND.usual + _BOUND.unusual)
_HIGH: Final = Kind((b"+inf", b"inf", b"3", b"2", b"(3"), _BOUND.usual + _BOUND.unusual)
_ODD_LEX: Final = (
    *(b"-", b"+", b"[a", b"(b", b"[d", b"(", b"[", b"", b"a", b"--", b"+1"),
    *(b"[\x00", b"(\xff", b"[\xff\xff", b"-\x00", b"0", b"[member"),
)
_LEX_LOW: Final = Kind((b"-", b"[a", b"(a", b"[1", b"["), _ODD_LEX)
_LEX_HIGH: Final = Kind((b"+", b"[d", b"(d", b"[c", b"[b"), _ODD_LEX)

# --------------------------------------------------------------------------------------------------------------- times

_BAD_TIME: Final = (b"", b"abc", b"1.5", b" 1", b"+1", _BEYOND, _INT_MAX, _INT_MIN, b"-1", b"-100", b"0")

_VALUES: Final[dict[str, Kind]] = {
    "value": _CONTENT,
    "element": _CONTENT,
    "comparison-value": _CONTENT,
    "field": _FIELD,
    "member": _MEMBER,
    "start": _INDEX,
    "stop": _INDEX,
    "end": _INDEX,
    "index": _INDEX,
    "offset": Kind((b"0", b"1", b"2"), (b"3", b"-1", b"-2", *_COUNT.unusual)),
    "count": _COUNT,
    "increment": _DELTA,
    "decrement": _DELTA,
    "score": _SCORE,
    "min": _LOW,
    "max": _HIGH,
    "seconds": Kind(
        tuple(Later(seconds, 1) for seconds in (100, 10**6, 10**8)),
        (b"9000000000000000", b"9223372036854775", *_BAD_TIME),
    ),
    "milliseconds": Kind(
        tuple(Later(seconds, 1000) for seconds in (100, 10**6, 10**8)), (b"9000000000000000000", *_BAD_TIME)
    ),
    "unix-time-seconds": Kind(
        (b"4102444800", b"4102444801", b"4200000000"), (b"1", b"1000000000", b"9223372036854776", *_BAD_TIME)
    ),
    "unix-time-milliseconds": Kind(
        (b"4102444800000", b"4102444800499", b"4102444800500", b"4200000000123"), (b"1", b"1000000000000", *_BAD_TIME)
    ),
}

_BY_LEX: Final = ("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT")
_SPECIAL: Final[dict[tuple[str, str], Kind]] = {
    ("INCRBYFLOAT", "increment"): _FLOAT,
    ("HINCRBYFLOAT", "increment"): _FLOAT,
    ("ZINCRBY", "increment"): _SCORE,
    # No offset that both would have to fill with megabytes.
    ("SETRANGE", "offset"): Kind((b"0", b"1", b"3", b"10"), (b"5000", b"-1", b"536870912", _INT_MAX, *_MALFORMED)),
    **{(name, "min"): _LEX_LOW for name in _BY_LEX},
    **{(name, "max"): _LEX_HIGH for name in _BY_LEX},
    # ZRANGE takes ranks, scores or members, whatever its options say.
    ("ZRANGE", "start"): Kind((b"0", b"1", b"-2"), (*_INDEX.unusual, *_BOUND.usual, *_BOUND.unusual, *_LEX_LOW.usual)),
    ("ZRANGE", "stop"): Kind((b"-1", b"2", b"3"), (*_INDEX.unusual, *_BOUND.usual, *_BOUND.unusual, *_LEX_HIGH.usual)),
}

ODD: Final[Values] = (*_MALFORMED, b"[a", b"(1", _INT_MAX, _INT_MIN, b"\x00\xff", b"-1", b"0", b"x" * 5000)
"""What may stand in the place of any argument."""

STRAY: Final = (
    *(
        b"NX",
        b"XX",
        b"GT",
        b"LT",
        b"CH",
        b"INCR",
        b"EX",
        b"PX",
        b"GET",
        b"KEEPTTL",
        b"PERSIST",
        b"WITHSCORES",
        b"LIMIT",
    ),
    *(b"REV", b"BYSCORE", b"BYLEX", b"ASYNC", b"SYNC", b"NOSUCH", b"IFEQ", b"EXAT"),
    # Redis compares most of its options as C strings.
    *(
        b"nx\x00",
        b"gt\x00-",
        b"Incr\x00",
        b"withscores\x00",
        b"rev\x00",
        b"BYLEX\x00",
        b"limit\x00",
        b"async\x00",
        b"Get\x00",
    ),
)
"""Options, of any command, that may stand where they do not belong."""


def kind_of(name: str, word: str) -> Kind:
    """The values of the argument `word` of the command `name`.

    Raises:
        KeyError: a word that no command had so far: give it values in this file.
    """
    return _SPECIAL.get((name, word)) or _VALUES[word]
