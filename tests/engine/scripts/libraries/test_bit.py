"""`bit` gives what BitOp in the real server gives."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Final

from tests.engine.scripts.libraries.comparison import differences, drawn
from tests.engine.scripts.libraries.values import NUMBERS
from tests.real.oracle import Connection

_UNARY: Final = ("tobit", "bnot", "bswap", "tohex")
_BINARY: Final = ("lshift", "rshift", "arshift", "rol", "ror", "tohex", "band", "bor", "bxor")
_FOLDS: Final = ("band", "bor", "bxor")
_ROUNDED: Final = ("2.5", "-0.5", "2^51", "2^52", "2^52+0.5", "-2^52", "6755399441055744", "-6755399441055744")
_WRONG: Final = ("", "nil", "{}", "'x'", "true", "1,nil", "1,{}", "1,'x'", "nil,nil", "1,nil,{}", "1,true,false")
_TEXTS: Final = ("'12'", "'0x1f'", "' 7 '")


def test_numbers_are_cut_to_32_bits_as_bitop_cuts_them(oracle: Connection) -> None:
    """What is no whole number, or has more than 32 bits, gives the bits that the real server sees."""
    values = (*NUMBERS, *_ROUNDED, *_TEXTS)
    pieces = [f"return bit.{name}({value})" for name, value in product(_UNARY, values)]
    assert [] == differences(oracle, pieces)


def test_shifts_and_digits_take_their_count_as_bitop_takes_it(oracle: Connection) -> None:
    """A count below 0 or above 31, or one that is no number of its own, gives what it gives in the real server."""
    counts = ("0", "1", "4", "8", "9", "31", "32", "33", "-1", "-8", "-2147483648", "2.5", "0/0", "'3'")
    values = ("0", "1", "-1", "0x12345678", "0x87654321", "2^31")
    pieces = [f"return bit.{name}({value},{count})" for name, value, count in product(_BINARY, values, counts)]
    assert [] == differences(oracle, pieces)


def test_wrong_arguments_have_the_errors_of_bitop(oracle: Connection) -> None:
    """The text names the argument, its type, and the function as the script called it."""
    calls = ("return bit.{name}({arguments})", "local called = bit.{name} local x = called({arguments}) return x")
    names = (*_UNARY, *_BINARY)
    pieces = [call.format(name=name, arguments=wrong) for call, name, wrong in product(calls, names, _WRONG)]
    pieces += [f"return pcall(bit.{name})" for name in names] + [f"return bit:{name}(1)" for name in names]
    assert [] == differences(oracle, pieces)


def _fold(random: Random) -> str:
    values = [
        random.choice((*NUMBERS, *_TEXTS)) if random.random() < 0.3 else str(random.randint(-(2**33), 2**33))
        for _ in range(random.randint(1, 5))
    ]
    return f"return bit.{random.choice(_FOLDS)}({','.join(values)})"


def test_any_numbers_are_combined_as_bitop_combines_them(oracle: Connection) -> None:
    """`band`, `bor` and `bxor` of one to five random numbers give what the real server gives."""
    assert [] == differences(oracle, drawn(_fold, 1_000))
