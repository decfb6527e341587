"""Arguments for random commands: weighted values for each word of a usage line.

Few keys, so that commands meet; beside the usual values the empty, the binary, the huge and the malformed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.values.numbers import INT_MAX, INT_MIN
from tests.differential import payloads


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
    "hyperloglog": (b"p1", b"p2", b"p{1}3"),
    "geo": (b"g1", b"g2"),
    "stream": (b"x1", b"x{1}2"),
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
        b"in fragments, if few bytes make some " * 16,
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
# Those of `tests.differential.contents.DATABASES`, and none that the comparison would miss.
_DB: Final = Kind((b"0", b"1", b"2"), (b"16", b"-1", b"99", _INT_MAX, *_MALFORMED))
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
_OFF_THE_MAP: Final = (b"180.1", b"-85.06", b"1e300", b"0", b"-0.5", *_ODD_FLOATS)
_LENGTH: Final = Kind((b"100", b"200", b"250.5", b"1000", b"1", b"20000"), (b"0", b"-1", b"1e300", *_ODD_FLOATS))
_LEX_LOW: Final = Kind((b"-", b"[a", b"(a", b"[1", b"["), _ODD_LEX)
_LEX_HIGH: Final = Kind((b"+", b"[d", b"(d", b"[c", b"[b"), _ODD_LEX)

# --------------------------------------------------------------------------------------------------------------- times

_BAD_TIME: Final = (b"", b"abc", b"1.5", b" 1", b"+1", _BEYOND, _INT_MAX, _INT_MIN, b"-1", b"-100", b"0")

_IDS: Final = (*(b"4-0", b"4-1", b"4-2", b"4-3") * 2, b"3-0", b"1-0", b"4", b"2", b"4-9")
_ODD_IDS: Final = (
    *(b"0-0", b"0", b"0-*", b"-", b"+", b"$", b">", b"*", b"1-1-1", b"4-", b"-4", b"4-x", b"4- 1", b"4\x00x", b"4--1"),
    *(b"18446744073709551615", b"18446744073709551616", b"4-18446744073709551615", b"9" * 130, *_MALFORMED),
)
_ID: Final = Kind(_IDS, _ODD_IDS)
_NEW_ID: Final = Kind(
    (b"1-*", b"2-*", b"3-*", *(b"4-*",) * 7, b"4-3"), (b"5-0", b"3-1", b"1", *_ODD_IDS[:2], *_ODD_IDS[8:])
)
_IDLE: Final = Kind((b"0", b"0", b"0", b"10000000000"), (b"-1", b"-5", *_MALFORMED))

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
    "numfields": Kind((b"1", b"1", b"2"), (b"0", b"3", b"-1", b"4294967297", _INT_MAX, *_MALFORMED)),
    "numkeys": Kind((b"1", b"2"), (b"0", b"3", b"-1", b"100", b"4294967297", _INT_MAX, *_MALFORMED)),
    "cursor": Kind(
        (b"0", b"0", b" 0", b"00", b"-0"), (b"-1", b"0\x00", b"18446744073709551616", b"0x0", *_MALFORMED[:4])
    ),
    "pattern": Kind(
        (b"*", b"*", b"[a-z]*", b"?*", b"*1*", b"?", b"[^a]*", b"*[1-3]"),
        (b"", b"**", b"\\a", b"[", b"[^", b"*\xff*", b"{l}3", b"[a-", b"*?*?*"),
    ),
    "type": Kind(
        (b"string", b"hash", b"list", b"set", b"zset"), (b"ZSET\x00-", b"stream", b"none", b"", b"no\r\ntype")
    ),
    "pivot": _CONTENT,
    "id": _ID,
    "last-id": Kind((b"4-7", b"4-2", b"4-4", b"3-0"), (b"9-9", *_ODD_IDS)),
    "max-deleted-id": _ID,
    "lastid": Kind((b"4-1", b"3-0"), _ODD_IDS),
    "group": Kind((*(b"crew",) * 6, b"others"), (b"", b"none", b"\x00\xff\r\n")),
    "consumer": Kind((b"ann", b"ann", b"bob"), (b"", b"\x00\xff\r\n", b"dan")),
    "*": _NEW_ID,  # a star alone is a time, which both sides take from their own clocks
    "=": Kind((b"=",), (b"=\x00", b"==")),
    "~": Kind((b"=",), (b"=",)),  # how much stays is open
    "$": Kind((b"$",), (b"$", b"$$")),
    "threshold": Kind((b"0", b"1", b"2", b"3", b"5", b"10", b"4-1"), (b"-1", b"4-3", b"3", _INT_MAX, *_ODD_IDS)),
    "entries-added": Kind((b"5", b"9", b"20"), (b"0", b"1", b"-1", _INT_MAX, *_MALFORMED)),
    "entries-read": Kind((b"0", b"1", b"2", b"-1"), (b"-2", b"9", *_MALFORMED)),
    "min-idle-time": _IDLE,
    "ms": Kind((b"0", b"100", b"100000000000"), (b"-1", b"10000000000000", *_MALFORMED)),
    "bit": Kind((b"0", b"1"), (b"2", b"-1", *_MALFORMED)),
    "encoding": Kind(
        (b"u8", b"i8", b"u4", b"i5", b"u1", b"i1", b"i16", b"u63", b"i64"),
        (b"u0", b"u64", b"i65", b"i0", b"U8", b"u08", b"8", b"u", b"i-1", b"u8\x00", *_MALFORMED),
    ),
    "min-match-len": Kind((b"0", b"1", b"2", b"4"), (b"-1", _INT_MAX, _INT_MIN, *_MALFORMED)),
    "weight": _SCORE,
    "longitude": Kind(
        (b"13.361389", b"15.087269", b"14.2", b"12.5", b"13.9", b"-70.6"), (b"180", b"-180", *_OFF_THE_MAP)
    ),
    "latitude": Kind((b"38.115556", b"37.502669", b"36.9", b"38.7", b"37.1", b"81.4"), (b"85.05112878", *_OFF_THE_MAP)),
    "radius": _LENGTH,
    "width": _LENGTH,
    "height": _LENGTH,
    "num-vertices": Kind((b"3", b"4"), (b"2", b"2147483648", b"-1", *_MALFORMED)),
    "num-matches": Kind((b"0", b"1", b"2"), _COUNT.unusual),
    "len": Kind((b"0", b"1", b"3", b"100"), _COUNT.unusual),
    "serialized-value": Kind(payloads.USUAL, payloads.UNUSUAL),
    "ttl": Kind(
        (b"0", b"0", Later(100, 1000), Later(10**6, 1000), b"4102444800000"), (b"9000000000000000000", *_BAD_TIME)
    ),
    "frequency": Kind((b"0", b"7", b"255"), (b"256", b"-1", *_MALFORMED)),
    "rank": Kind((b"1", b"2", b"-1", b"-2"), (b"0", b"9", _INT_MAX, _INT_MIN, *_MALFORMED)),
    "limit": Kind((b"0", b"1", b"2"), _COUNT.unusual),
    "db": _DB,
    "destination-db": _DB,
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

_BY_LEX: Final = ("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZLEXCOUNT", "ZREMRANGEBYLEX")
# A scan of some elements takes many calls: a count that makes them so, or one that is refused.
_FEW: Final = Kind((b"1", b"2", b"3", b"100"), (b"0", b"-1", _INT_MAX, *_MALFORMED))
# None that is so far below zero that the oracle would not come to an end.
_DRAWN: Final = Kind((b"1", b"2", b"3", b"-1", b"-3"), (b"0", b"100", b"-20", _INT_MAX, _INT_MIN, *_MALFORMED))
_BIT_OFFSET: Final = Kind(
    (b"0", b"1", b"7", b"8", b"20", b"4500"),
    (b"999", b"32768", b"1048575", b"1048576", b"-1", b"4294967296", _INT_MAX, *_MALFORMED),
)
# Of other keys, of fields, of the element itself, and of nothing.
_REFERENCE: Final = Kind(
    (b"s*", b"s{1}*", b"h*->a", b"#", b"nosort", b"*"),
    (b"", b"*->", b"s*->a", b"h*->", b"l*", b"none*", b"#\x00", b"\x00*", b"s*\x00", b"h*->a\x00", b"h*\x00->a"),
)
_ANY_LOW: Final = Kind((b"0", b"1", b"-2"), (*_INDEX.unusual, *_BOUND.usual, *_BOUND.unusual, *_LEX_LOW.usual))
_ANY_HIGH: Final = Kind((b"-1", b"2", b"3"), (*_INDEX.unusual, *_BOUND.usual, *_BOUND.unusual, *_LEX_HIGH.usual))
# What a bitmap of 128 KiB ends with and what is behind it: beyond, the oracle would fill megabytes.
_BITFIELD_OFFSET: Final = Kind(
    (b"0", b"3", b"8", b"#0", b"#1", b"#3", b"100", b"60"),
    (b"#-1", b"#", b"#01", b"4294967296", b"#288230376151711744", b"32767", b"1048570", _INT_MAX, *_MALFORMED),
)
_BITFIELD_VALUE: Final = Kind(
    (b"0", b"1", b"-1", b"100", b"300", b"-200"), (_INT_MAX, _INT_MIN, b"18446744073709551615", *_MALFORMED)
)
_ODD_EDGES: Final = (b"(", b"(0", b"(-", *_ODD_IDS)
_EDGES: Final = (
    *(("XRANGE", "start", b"-"), ("XRANGE", "end", b"+"), ("XREVRANGE", "start", b"-"), ("XREVRANGE", "end", b"+")),
    *(("XPENDING", "start", b"-"), ("XPENDING", "end", b"+"), ("XAUTOCLAIM", "start", b"-")),
)
"""Arguments that are an end of an interval, and what stands for all on that side."""
_SPECIAL: Final[dict[tuple[str, str], Kind]] = {
    ("XADD", "id"): _NEW_ID,
    **{(name, word): Kind((edge, edge, *_IDS, b"(4-1"), _ODD_EDGES) for name, word, edge in _EDGES},
    ("XREADGROUP", "id"): Kind((b">", b">", b">", b"0", b"4-0"), (b"$", b"+", *_ODD_IDS)),
    **{(name, "group"): Kind((b"crew",), (b"others", b"")) for name in ("XCLAIM", "XGROUP|DELCONSUMER")},
    **{(name, "group"): Kind((b"crew", b"crew", b"others"), (b"",)) for name in ("XGROUP|DESTROY", "XGROUP|SETID")},
    ("XGROUP|CREATE", "id"): Kind((b"0", b"0", b"0", b"3-0"), _ODD_IDS),
    ("XREAD", "id"): Kind((b"0", b"4-1", b"$", b"+"), _ODD_IDS),
    ("XCLAIM", "unix-time-milliseconds"): Kind((b"1000000000000", b"1"), (b"-1", b"x", b"4102444800000")),
    ("XAUTOCLAIM", "count"): Kind((b"1", b"2", b"3"), (b"0", b"-1", b"100", _INT_MAX, *_MALFORMED)),
    # No time that has come: the oracle's MSETEX, unlike SET, writes such keys all the same, and DBSIZE counts them.
    ("MSETEX", "unix-time-seconds"): Kind((b"4102444800", b"4200000000"), (b"9223372036854776", b"x", b"0", b"-1")),
    ("MSETEX", "unix-time-milliseconds"): Kind((b"4102444800000", b"4200000000123"), (b"x", b"0", b"-1")),
    ("SORT", "pattern"): _REFERENCE,
    ("SORT_RO", "pattern"): _REFERENCE,
    # Of six members at the most, those that are equally far away keep their order in the oracle's sort.
    ("GEOADD", "member"): Kind((b"a", b"b", b"c", b"d", b"aa"), (b"", b"member " * 10)),
    ("INCRBYFLOAT", "increment"): _FLOAT,
    ("HINCRBYFLOAT", "increment"): _FLOAT,
    ("ZINCRBY", "increment"): _SCORE,
    ("LREM", "count"): Kind((b"0", b"1", b"2", b"-1", b"-2"), (_INT_MAX, _INT_MIN, *_MALFORMED)),
    **{(name, "count"): _DRAWN for name in ("SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER")},
    ("SCAN", "count"): _FEW,
    ("HSCAN", "count"): _FEW,
    ("SSCAN", "count"): _FEW,
    ("ZSCAN", "count"): _FEW,
    **{(name, "offset"): _BIT_OFFSET for name in ("SETBIT", "GETBIT")},
    # Another IDLETIME would be what OBJECT IDLETIME of the oracle answers.
    ("RESTORE", "seconds"): Kind((b"0",), (b"-1", *_MALFORMED)),
    **{(name, "offset"): _BITFIELD_OFFSET for name in ("BITFIELD", "BITFIELD_RO")},
    ("BITFIELD", "value"): _BITFIELD_VALUE,
    ("BITFIELD", "increment"): _BITFIELD_VALUE,
    ("SETBIT", "value"): Kind((b"0", b"1"), (b"2", b"-1", *_MALFORMED)),
    # No offset that both would have to fill with megabytes.
    ("SETRANGE", "offset"): Kind(
        (b"0", b"1", b"3", b"10", b"600"), (b"4095", b"5000", b"131071", b"-1", b"536870912", _INT_MAX, *_MALFORMED)
    ),
    **{(name, "min"): _LEX_LOW for name in _BY_LEX},
    **{(name, "max"): _LEX_HIGH for name in _BY_LEX},
    # ZRANGE takes ranks, scores or members, whatever its options say.
    ("ZRANGE", "start"): _ANY_LOW,
    ("ZRANGE", "stop"): _ANY_HIGH,
    ("ZRANGESTORE", "min"): _ANY_LOW,
    ("ZRANGESTORE", "max"): _ANY_HIGH,
    # What a negative one stores is open.
    ("ZRANGESTORE", "offset"): Kind((b"0", b"1", b"2"), _MALFORMED),
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
    *(b"MATCH", b"TYPE", b"NOVALUES", b"NOSCORES", b"SAMPLES", b"novalues\x00-"),
    *(b"WITHVALUES", b"REPLACE", b"ABSTTL", b"FREQ", b"DB", b"BEFORE", b"RANK", b"MAXLEN"),
    *(b"WEIGHTS", b"AGGREGATE", b"SUM", b"BIT", b"BYTE", b"OVERFLOW", b"SAT", b"LEN", b"IDX"),
    *(b"FIELDS", b"FNX", b"FXX", b"fields\x00", b"fnx\x00-"),
    *(b"COUNT", b"LEFT", b"MIN", b"right\x00-", b"max\x00", b"count\x00"),
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


INSTEAD: Final = dict.fromkeys(("DIFF", "DIFF1", "ANDOR", "ONE"), "XOR")
"""Words of a usage that the oracle does not know, of Redis 8.2's BITOP: what is sent instead."""


def kind_of(name: str, word: str) -> Kind:
    """The values of the argument `word` of the command `name`.

    Raises:
        KeyError: a word that no command had so far: give it values in this file.
    """
    return _SPECIAL.get((name, word)) or _VALUES[word]
