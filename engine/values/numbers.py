"""Parses and prints numbers bit for bit as Redis does: integers, doubles, x87 long doubles.

Everything here is integer arithmetic, or IEEE-754 operations that have one right answer: every machine gives the same
bytes. What valkey-server 9.1 does was found by asking it; tests/engine/values/test_numbers.py keeps asking.

    integer       -?[1-9][0-9]* or 0, 64 bits with a sign; no plus, no space, no -0
    double        [+-]? (decimal with an optional exponent | inf | infinity), any case; no hexadecimal, no space, no NaN
    long double   as a double, and hexadecimal (0x1.8p3) too: that one goes through the C library's strtold

Measured (CPython 3.11, a shared core on which int(b"1234567890") takes 0.10 us): parse_int 0.35 us; parse_double
0.23 us for digits alone, 0.4 with a minus before them, else 0.7 us; parse twice, add and format, as INCRBYFLOAT does,
11 us. Doubles are printed by `slotlog.shared.doubles`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from slotlog.shared.errors import InvariantError

# ---------------------------------------------------------------------------------------------------------- integers

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
_INT_LENGTH_MAX: Final = 20  # len(b"-9223372036854775808")
_FITTING_DIGITS: Final = 18  # however large they are
_ZERO: Final = ord("0")


def parse_int(data: bytes) -> int | None:
    """The signed 64-bit integer whose one spelling is `data`, or None: exactly what INCR takes for a number."""
    size = len(data)
    if size <= _FITTING_DIGITS and data.isdigit() and (data[0] != _ZERO or size == 1):  # most are: half the time
        return int(data)
    if size > _INT_LENGTH_MAX:  # also keeps int() away from long inputs
        return None
    try:
        value = int(data)
    except ValueError:
        return None
    # int() also takes spaces, a plus, "_", leading zeros and "-0": none of them is what the value prints as.
    if b"%d" % value == data and INT_MIN <= value <= INT_MAX:
        return value
    return None


# ---------------------------------------------------------------------------------------------------- doubles: parse

_INFINITIES: Final = frozenset((b"inf", b"infinity"))


def parse_double(data: bytes) -> float | None:
    """The double nearest to what `data` spells, as ZADD and ZINCRBY read a score.

    None where they answer "value is not a valid float": also for NaN, for what overflows to an infinity, and for what
    underflows to zero without being zero. The result may be -0.0, which ZINCRBY prints as such and no score keeps.
    """
    # No overflow and nothing else to refuse: times, counts and differences of these are common scores.
    if len(data) < 300 and (data.isdigit() or (data[:1] == b"-" and data[1:].isdigit())):
        return float(data)
    value = _to_double(data)
    if not value:  # None, 0.0 or -0.0: zero must have been spelled as zero
        return None if value is None or data.lower().partition(b"e")[0].strip(b"+-.0") else value
    if value - value != 0 and data.lower().lstrip(b"+-") not in _INFINITIES:  # infinite, but spelled as a number
        return None
    return value


def parse_hexadecimal(data: bytes) -> float | None:
    """The double nearest to what `data` spells in hexadecimal, such as `0x1.8p3`, as strtod(3) reads it.

    None for anything else, for what overflows, and for what underflows to zero without being zero.
    """
    if not _HEXADECIMAL.fullmatch(data):
        return None
    try:
        value = float.fromhex(data.decode())
    except OverflowError:
        return None
    return value if value or not data.lower().partition(b"p")[0].strip(b"+-0x.") else None


def parse_score_bound(data: bytes) -> float | None:
    """One end of a score range, without its "(", as ZRANGEBYSCORE and ZCOUNT read it.

    None where they answer "min or max is not a float". They are laxer than `parse_double`: what is out of range
    becomes an infinity or zero, the text ends at its first NUL, and an empty text is zero.
    """
    text = data.partition(b"\0")[0]
    return _to_double(text) if text else 0.0


def _to_double(data: bytes) -> float | None:
    """float(data) without what only Python takes: spaces around, "_" between digits, NaN."""
    try:
        value = float(data)
    except ValueError:
        return None
    if data[0] <= 0x20 or data[-1] <= 0x20 or b"_" in data or value != value:  # noqa: PLR0124 - NaN differs from itself
        return None
    return value


# ------------------------------------------------------------------------------------------------------ long doubles

_TEXT_LENGTH_MAX: Final = 5119  # bytes; Redis reads a long double through a buffer of 5,120 with the final NUL
_MANTISSA_BITS: Final = 64
_EXPONENT_MIN: Final = -16445  # of the last bit: 2**-16445 is the smallest subnormal
_EXPONENT_TOP: Final = 16384  # finite values are below 2**16384
_FRACTION_DIGITS: Final = 17  # printed as by "%.17Lf"
_ONE: Final = 10**_FRACTION_DIGITS
_CHUNK_DIGITS: Final = 600  # int() and str() refuse more than 640 digits where PYTHONINTMAXSTRDIGITS says so

_DECIMAL: Final = re.compile(rb"([+-]?)(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?")
_HEXADECIMAL: Final = re.compile(rb"([+-]?)0[xX](?=\.?[\da-fA-F])([\da-fA-F]*)\.?([\da-fA-F]*)(?:[pP]([+-]?\d+))?")


class LongDouble(NamedTuple):
    """An x87 80-bit extended number: mantissa * 2**exponent.

    Attributes:
        mantissa: with its sign, at most 64 bits. There is no -0: no reply tells it from 0.
        exponent: of the mantissa's last bit, at least -16,445; 16,384 for an infinity.
    """

    mantissa: int
    exponent: int

    @property
    def is_infinite(self) -> bool:
        """Whether this was spelled "inf": accepted as a number, refused by every command that adds."""
        return self.exponent == _EXPONENT_TOP


ZERO: Final = LongDouble(0, 0)


def parse_long_double(data: bytes) -> LongDouble | None:
    """What `data` spells, rounded to nearest, as INCRBYFLOAT and HINCRBYFLOAT read their increment and the old value.

    None where they answer "value is not a valid float" ("hash value is not a float"): also for NaN, for what overflows,
    for what is not zero but underflows to it, and for more than 5,119 bytes.
    """
    if len(data) > _TEXT_LENGTH_MAX:
        return None
    base = 10
    match = _DECIMAL.fullmatch(data)
    if match is None:
        base = 16
        match = _HEXADECIMAL.fullmatch(data)
    if match is None:
        if data.lower().removeprefix(b"-" if data[:1] == b"-" else b"+") in _INFINITIES:
            return LongDouble(-1 if data[:1] == b"-" else 1, _EXPONENT_TOP)
        return None
    sign, whole, fraction, exponent_text = match.groups(b"")
    digits = (whole + fraction).lstrip(b"0")
    if not digits:
        return ZERO
    exponent = _parse_exponent(exponent_text)
    if base == 16:
        value = _from_hexadecimal(digits, exponent - 4 * len(fraction))
    else:
        value = _from_decimal(digits, exponent - len(fraction))
    if value is None or not value.mantissa:
        return None
    return LongDouble(-value.mantissa, value.exponent) if sign == b"-" else value


def add_long_doubles(first: LongDouble, second: LongDouble) -> LongDouble | None:
    """The sum, rounded to nearest, half to even; None for "increment would produce NaN or Infinity"."""
    if first.is_infinite or second.is_infinite:
        return None
    exponent = min(first.exponent, second.exponent)
    total = (first.mantissa << (first.exponent - exponent)) + (second.mantissa << (second.exponent - exponent))
    value = _round(abs(total), exponent)
    if value is None or total >= 0:
        return value
    return LongDouble(-value.mantissa, value.exponent)


def format_long_double(value: LongDouble) -> bytes:
    """A finite long double as INCRBYFLOAT prints it: 17 decimals, rounded half to even, without trailing zeros."""
    if value.is_infinite:
        raise InvariantError("an infinite number would be written, which `add_long_doubles` never gives")
    mantissa, exponent = value
    scaled = abs(mantissa) * _ONE
    scaled = scaled << exponent if exponent >= 0 else _shift_half_even(scaled, -exponent)
    whole, fraction = divmod(scaled, _ONE)
    text = _to_digits(whole)
    if fraction:
        text += b"." + (b"%017d" % fraction).rstrip(b"0")
    return b"-" + text if mantissa < 0 and scaled else text


def _parse_exponent(text: bytes) -> int:
    """The exponent of a long double's text, b"" for none; what is beyond every possible value stays just beyond it."""
    digits = text.lstrip(b"+-0")
    magnitude = int(digits or b"0") if len(digits) < 6 else 10**6
    return -magnitude if text[:1] == b"-" else magnitude


def _from_decimal(digits: bytes, exponent: int) -> LongDouble | None:
    """Round digits * 10**exponent; None for what is far too large or too small. `digits` starts with no zero."""
    if not -4960 < len(digits) + exponent < 4940:  # far outside 3.6e-4951 ... 1.19e4932: no need for exact powers
        return None
    number = 0
    for start in range(0, len(digits), _CHUNK_DIGITS):
        chunk = digits[start : start + _CHUNK_DIGITS]
        number = number * 10 ** len(chunk) + int(chunk)
    if exponent >= 0:
        return _round(number * 10**exponent, 0)
    # At least 66 bits of quotient, and one more that says whether a remainder was left, round as the exact ratio does.
    divisor = 10**-exponent
    shift = max(66 - number.bit_length() + divisor.bit_length(), 0)
    quotient, remainder = divmod(number << shift, divisor)
    return _round(quotient << 1 | (remainder != 0), -shift - 1)


def _from_hexadecimal(digits: bytes, exponent: int) -> LongDouble | None:
    """Round digits * 2**exponent; None for what is far too large or too small."""
    number = int(digits, 16)
    if not -16500 < number.bit_length() + exponent < 16500:  # far outside 2**-16446 ... 2**16384
        return None
    return _round(number, exponent)


def _round(magnitude: int, exponent: int) -> LongDouble | None:
    """Round magnitude * 2**exponent to the precision of a long double, half to even; None when that overflows."""
    excess = max(magnitude.bit_length() - _MANTISSA_BITS, _EXPONENT_MIN - exponent)
    if excess > 0:
        magnitude = _shift_half_even(magnitude, excess)
        exponent += excess
    if magnitude.bit_length() + exponent > _EXPONENT_TOP:
        return None
    return LongDouble(magnitude, exponent)


def _shift_half_even(value: int, bits: int) -> int:
    """Round value / 2**bits (bits > 0) to the nearest integer, half to even."""
    kept = value >> bits
    dropped = value & ((1 << bits) - 1)
    half = 1 << (bits - 1)
    return kept + 1 if dropped > half or (dropped == half and kept & 1) else kept


def _to_digits(number: int) -> bytes:
    """b"%d" % number (not negative), for any size."""
    chunks: list[bytes] = []
    while number.bit_length() > 1024:  # more than 308 digits
        number, chunk = divmod(number, 10**300)
        chunks.append(b"%0300d" % chunk)
    chunks.append(b"%d" % number)
    return b"".join(reversed(chunks))
