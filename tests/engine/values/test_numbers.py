"""Numbers are read and printed as by the oracle: tables of what it answered, and itself on generated input."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.values import numbers
from engine.values.numbers import (
    add_long_doubles,
    format_long_double,
    parse_double,
    parse_hexadecimal,
    parse_int,
    parse_long_double,
    parse_score_bound,
)
from slotlog.shared.doubles import format_double
from tests.real.oracle import Connection, ErrorReply, Oracle

SYNTAX = ErrorReply(b"ERR syntax error")
NOT_A_FLOAT = ErrorReply(b"ERR value is not a valid float")
NOT_AN_INTEGER = ErrorReply(b"ERR value is not an integer or out of range")
NOT_A_BOUND = ErrorReply(b"ERR min or max is not a float")
NOT_FINITE = ErrorReply(b"ERR increment would produce NaN or Infinity")

SMALLEST = b"3.6e-4951"
"""Rounds to the smallest subnormal long double, 2**-16445."""

LARGEST = b"1.18973149535723176502e4932"
"""Rounds to the largest finite long double."""

# ------------------------------------------------------------------------------------------- what the oracle answered


@pytest.mark.parametrize("value", [0, 1, -1, 9, 10, 1234567890, 10**18 - 1, 10**18, (1 << 63) - 1, -(1 << 63)])
def test_integers_are_read_as_they_print(value: int) -> None:
    """An integer of 64 bits has one spelling, its own."""
    assert value == parse_int(b"%d" % value)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"-", b"+1", b" 1", b"1 ", b"1\n", b"01", b"-01", b"00", b"-0", b"1_0", b"1.0", b"1e3", b"0x1", b"1\0"),
        *(b"0" * 18, b"0" + b"9" * 17, b"9" * 19),
        *(b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999", b"1" * 5000, b"\xd9\xa3"),
    ],
)
def test_other_spellings_are_no_integers(text: bytes) -> None:
    """Signs, spaces, leading zeros, other notations and 65 bits are refused."""
    assert parse_int(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"3", 3.0),
        (b"+3", 3.0),
        (b"-3.5", -3.5),
        (b".5", 0.5),
        (b"5.", 5.0),
        (b"1.e5", 1e5),
        (b"1E+05", 1e5),
        (b"007", 7.0),
        (b"0e99999999999999999999", 0.0),
        (b"iNf", math.inf),
        (b"+Infinity", math.inf),
        (b"-inf", -math.inf),
        (b"5e-324", 5e-324),
        (b"2.5e-324", 5e-324),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"9007199254740993", 9007199254740992.0),
        (b"0." + b"0" * 400 + b"1e400", 0.1),
        (b"1" + b"0" * 400 + b"e-400", 1.0),
    ],
)
def test_scores_are_read(text: bytes, value: float) -> None:
    """Decimals and infinities in any case are scores, rounded to the nearest double."""
    assert value == parse_double(text)
    assert value == parse_score_bound(text)


@pytest.mark.parametrize(
    "text",
    [
        *(b" 3", b"3 ", b"\t3", b"3\n", b"\x1c3", b"-", b"+", b"+-3", b"++3", b".", b".e5", b"1e", b"1e+", b"1e1.5"),
        *(b"1_000", b"1,5", b"1.5.5", b"1d", b"0x10", b"0x1p3", b"infinit", b"infx", b"nan", b"-NaN", b"nan(1)"),
        *(b"--3", b"-+3", b"-3-"),
    ],
)
def test_other_texts_are_no_scores(text: bytes) -> None:
    """Spaces, separators, hexadecimal notation and NaN are refused, as a score and as the end of a range."""
    assert parse_double(text) is None
    assert parse_score_bound(text) is None


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (b"1e400", math.inf),
        (b"-1.7976931348623159e308", -math.inf),
        (b"1" * 400, math.inf),
        (b"2e-324", 0.0),
        (b"-1e-400", 0.0),
        (b"", 0.0),
        (b"\x001", 0.0),
        (b"7\0x", 7.0),
    ],
)
def test_range_bounds_take_more_than_scores(text: bytes, bound: float) -> None:
    """Out of range, empty or cut by a NUL: no score, but the end of a range."""
    assert parse_double(text) is None
    assert bound == parse_score_bound(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"-0"),
        (3.0, b"3"),
        (-3.1, b"-3.1"),
        (math.inf, b"inf"),
        (-math.inf, b"-inf"),
        (123456.789, b"123456.789"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (1.2345e-5, b"1.2345e-5"),
        (1.2345678901234567e-7, b"1.2345678901234566e-7"),
        (5e-324, b"5e-324"),
        (1.7976931348623157e308, b"1.7976931348623157e+308"),
        (2.0**62, b"4611686018427387904"),
        (-(2.0**62) - 1024, b"-4611686018427389000"),
        (1e19, b"1e+19"),
        (2.0**64, b"18446744073709552000"),
        (1.2345678901234567e23, b"123456789012345670000000"),
        (1.2345678901234567e24, b"1.2345678901234568e+24"),
        (378.835566, b"378.83556599999997"),  # not the shortest: 378.835566 is the same double
        (0.05109, b"0.051090000000000003"),
        (7.934e21, b"7934000000000001000000"),
        (-277.187106, b"-277.18710600000003"),
        (8.950248589702101e-76, b"8.950248589702101e-76"),  # two cached powers fit: the smaller one is taken
        (9.029570602400443e284, b"9.029570602400442e+284"),
        (0.1531, b"0.1531"),  # the lower end of its interval is a whole number, scaled
        (64878.3714, b"64878.3714"),
    ],
)
def test_scores_are_printed(value: float, text: bytes) -> None:
    """Whole numbers print as integers up to 2**62, others by Grisu2, which is not always shortest."""
    assert text == format_double(value)


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (b"10.5", b"0.1", b"10.6"),
        (b"5.0e3", b"2.0e2", b"5200"),
        (b"0x1.8p1", b"-0X.8", b"2.5"),
        (b"1", b"-1", b"0"),
        (b"-0", b"-0.0", b"0"),
        (b"3", b"-3.14159", b"-0.14159"),
        (b"1e30", b"0", b"1000000000000000000024696061952"),
        (b"18446744073709551615", b"1", b"18446744073709551616"),
        (b"18446744073709551616", b"1", b"18446744073709551616"),  # a tie goes to the even mantissa
        (b"18446744073709551618", b"1", b"18446744073709551620"),
        (b"18446744073709551617.0000000000000000000000000000000", b"0", b"18446744073709551616"),
        (b"18446744073709551617.0000000000000000000000000000001", b"0", b"18446744073709551618"),  # just over a tie
        (b"9223372036854775807.5", b"0.5", b"9223372036854775808"),
        (b"1e-17", b"0", b"0.00000000000000001"),
        (b"-5e-18", b"0", b"0"),
        (b"0x1p-18", b"0", b"0.00000381469726562"),  # ...5625: decimals are rounded half to even, exactly
        (b"0x3p-18", b"0", b"0.00001144409179688"),
        (SMALLEST, b"1", b"1"),
        (b"0" * 5118 + b"1", b"0." + b"0" * 5117, b"1"),
    ],
)
def test_long_doubles_are_added(first: bytes, second: bytes, total: bytes) -> None:
    """Sums have 64 bits of mantissa and print with 17 decimals, without trailing zeros and without a negative zero."""
    assert total == _sum(first, second)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b" 3", b"3 ", b"\v3", b"-", b"--1", b".", b"1e", b"1e+", b"1e1.5", b"1_0", b"1,5", b"1\0", b"1d"),
        *(b"0x", b"0x.", b"0xp3", b"0x1p", b"0x1.8p1.5", b"0b11", b"infinit", b"--inf", b"+-inf", b"nan", b"nan(1)"),
        *(b"1e5000", b"1.189731495357231766e4932", b"0x1p16384", b"0x1.ffffffffffffffffp16383", b"1e" + b"9" * 5000),
        *(b"1e-5000", b"1.8e-4951", b"0x1p-16446", b"-0x1p-99999", b"1e-" + b"9" * 5000, b"0" * 5119 + b"1"),
    ],
)
def test_other_texts_are_no_long_doubles(text: bytes) -> None:
    """Other notations, NaN, overflow, underflow to zero and more than 5,119 bytes are refused."""
    assert parse_long_double(text) is None


@pytest.mark.parametrize("text", [b"0", b"-0.000", b"0e" + b"9" * 5000, b"0x0p99999", b".0e-7"])
def test_zero_has_no_exponent(text: bytes) -> None:
    """Zero is zero whatever its exponent: neither overflow nor underflow."""
    assert numbers.ZERO == parse_long_double(text)


@pytest.mark.parametrize("text", [b"inf", b"+INF", b"-inf", b"Infinity", b"-iNfInItY"])
def test_infinity_is_a_number_that_cannot_be_added(text: bytes) -> None:
    """An infinity is read as such and makes every sum fail."""
    value = parse_long_double(text)

    assert value is not None
    assert value.is_infinite
    assert add_long_doubles(value, numbers.ZERO) is None
    assert add_long_doubles(numbers.ZERO, value) is None


def test_the_largest_long_double() -> None:
    """The largest finite number prints all its 4,933 digits; twice as much is no number any more."""
    value = parse_long_double(LARGEST)

    assert numbers.LongDouble((1 << 64) - 1, 16320) == value
    text = format_long_double(value)
    exact = (1 << 64) - 1 << 16320
    assert 4933 == len(text)
    assert b"%d" % (exact // 10**4333) == text[:600]
    assert b"%0600d" % (exact // 10**2000 % 10**600) == text[-2600:-2000]
    assert b"%0600d" % (exact % 10**600) == text[-600:]
    assert add_long_doubles(value, value) is None


# ---------------------------------------------------------------------------------------------------- the oracle itself


@pytest.fixture(scope="module")
def connection(oracle_server: Oracle) -> Iterator[Connection]:
    """One connection for all examples of a Hypothesis test. Each example writes its keys anew."""
    connection = oracle_server.connect()
    yield connection
    connection.call("FLUSHALL")
    connection.close()


def _texts() -> st.SearchStrategy[bytes]:
    """Texts that are numbers, are nearly numbers, or are made of the same characters."""
    sign = st.sampled_from(["", "", "-", "+"])
    point = st.sampled_from(["", ".", "."])
    digits = st.text("0123456789", max_size=25)
    hexadecimal = st.text("0123456789abcDEF", max_size=20)
    power = st.integers(-30, 30) | st.integers(-400, 400) | st.integers(-5000, 5000)
    near_64_bits = st.integers((1 << 63) - 3, (1 << 64) + 5).map(str)
    return st.one_of(
        st.integers(-(1 << 65), 1 << 65).map(str),
        st.floats().map(repr),
        st.tuples(sign, digits, point, digits).map("".join),
        st.tuples(sign, digits, point, digits, st.sampled_from("eE"), power.map(str)).map("".join),
        st.tuples(sign, st.sampled_from(["0x", "0X"]), hexadecimal, point, hexadecimal).map("".join),
        st.tuples(sign, st.just("0x"), hexadecimal, point, hexadecimal, st.just("p"), power.map(str)).map("".join),
        st.tuples(sign, near_64_bits, st.sampled_from(["", ".25", ".5", ".75"])).map("".join),
        st.tuples(sign, st.sampled_from("123456789"), st.just("5e-"), st.integers(15, 20).map(str)).map("".join),
        st.tuples(digits, st.just("e"), st.integers(4890, 4935).map(str)).map("".join),
        st.tuples(digits, st.just("e-"), st.integers(4930, 4990).map(str)).map("".join),
        st.text("0123456789+-.eExXpPiInNfFtTyYaA _\0\n", max_size=8),
    ).map(str.encode)


def _sum(first: bytes, second: bytes) -> bytes | ErrorReply:
    """What INCRBYFLOAT answers when the key holds `first` and the increment is `second`."""
    current, increment = parse_long_double(first), parse_long_double(second)
    if current is None or increment is None:
        return NOT_A_FLOAT
    total = add_long_doubles(current, increment)
    return NOT_FINITE if total is None else format_long_double(total)


@settings(max_examples=600)
@given(text=_texts() | st.integers(-(1 << 64), 1 << 64).map(lambda value: b"%d" % value))
def test_the_oracle_reads_the_same_integers(connection: Connection, text: bytes) -> None:
    """INCRBY takes as a number what parse_int does."""
    value = parse_int(text)

    reply = connection.pipeline([("SET", "integer", text), ("INCRBY", "integer", 0)])[-1]

    assert (NOT_AN_INTEGER if value is None else value) == reply


@settings(max_examples=800)
@example(text=b"XX")
@given(text=_texts())
def test_the_oracle_reads_the_same_scores(connection: Connection, text: bytes) -> None:
    """ZINCRBY takes as a score what parse_double does, and rounds it to the same double. It takes options as ZADD."""
    value = parse_double(text)
    is_option = text.partition(b"\0")[0].upper() in {b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"}

    reply = connection.pipeline([("DEL", "scores"), ("ZINCRBY", "scores", text, "member")])[-1]

    refusal = SYNTAX if is_option else NOT_A_FLOAT
    assert (refusal if value is None else format_double(value)) == reply


@settings(max_examples=600)
@given(text=_texts())
def test_the_oracle_reads_the_same_range_bounds(connection: Connection, text: bytes) -> None:
    """ZCOUNT takes as the end of a range what parse_score_bound does: from it to it is exactly one score."""
    bound = parse_score_bound(text)

    reply = connection.pipeline(
        [("DEL", "bounds"), ("ZADD", "bounds", repr(bound or 0.0), "member"), ("ZCOUNT", "bounds", text, text)]
    )[-1]

    assert (NOT_A_BOUND if bound is None else 1) == reply


@settings(max_examples=800)
@given(first=_texts(), second=_texts())
@example(first=LARGEST, second=LARGEST)
@example(first=LARGEST, second=b"-" + LARGEST)
@example(first=LARGEST, second=b"0")
@example(first=SMALLEST, second=b"-1")
@example(first=b"9" * 4932, second=b"0." + b"0" * 4900 + b"1")
def test_the_oracle_has_the_same_sums(connection: Connection, first: bytes, second: bytes) -> None:
    """INCRBYFLOAT reads, adds, rounds and prints 80-bit numbers as we do."""
    reply = connection.pipeline([("SET", "float", first), ("INCRBYFLOAT", "float", second)])[-1]

    assert _sum(first, second) == reply


@settings(max_examples=600)
@given(
    value=st.floats(allow_nan=False) | st.floats(-1e6, 1e6) | st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
)
def test_the_oracle_prints_the_same_scores(connection: Connection, value: float) -> None:
    """ZADD INCR prints any double as we do."""
    reply = connection.pipeline([("DEL", "printed"), ("ZADD", "printed", "INCR", repr(value), "member")])[-1]

    assert format_double(value) == reply


def test_the_oracle_prints_the_same_thousands_of_scores(connection: Connection) -> None:
    """One double in 500 prints longer than it must: 20,000 of them, from every binary exponent, meet enough such."""
    randomness = random.Random(1)
    values: list[float] = []
    for biased_exponent in range(1, 2047):
        for _ in range(10):
            bits = biased_exponent << 52 | randomness.getrandbits(randomness.randint(1, 52))
            values.extend(struct.unpack(">d", bits.to_bytes(8, "big")))
    arguments = [part for member, value in enumerate(values) for part in (repr(value), str(member))]

    replies = connection.pipeline(
        [("DEL", "many"), ("ZADD", "many", *arguments), ("ZMSCORE", "many", *range(len(values)))]
    )[-1]

    assert [format_double(value) for value in values] == replies


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0x10", 16.0),
        (b"-0XfF", -255.0),
        (b"+0x.8", 0.5),
        (b"0x1.8p3", 12.0),
        (b"0x1p-1074", 5e-324),
        (b"0x0p9", 0.0),
        (b"0x1.fffffffffffff7p1023", 1.7976931348623157e308),
    ],
)
def test_hexadecimal(text: bytes, value: float) -> None:
    """What strtod(3) makes of it."""
    assert value == parse_hexadecimal(text)


@pytest.mark.parametrize(
    "text",
    [b"", b"16", b"0x", b"0x.", b"0xg", b"0x1p", b"0x1_0", b" 0x1", b"0x1 ", b"0x1p1024", b"0x1p-1075", b"-0x1p-9999"],
)
def test_no_hexadecimal(text: bytes) -> None:
    """Decimal digits, blanks, half of an exponent; and what a double cannot hold."""
    assert parse_hexadecimal(text) is None
