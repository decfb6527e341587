"""`struct` packs and unpacks as it does in the real server."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Final

from tests.engine.scripts.libraries.comparison import differences, drawn, quoted
from tests.engine.scripts.libraries.values import NUMBERS, number
from tests.real.oracle import Connection

_COMMON: Final = (
    "b",
    "B",
    "h",
    "H",
    "l",
    "L",
    "i",
    "I",
    "f",
    "d",
    "i4",
    "i8",
    "<",
    ">",
    "!4",
    "!",
    "c3",
    "s",
    "i3",
    "x",
)
_RARE: Final = (
    *("T", "i0", "i1", "i2", "I2", "i5", "I6", "i7", "I8", "i9", "i12", "i16", "i32", "i33", "c", "c0", "c5", " "),
    *("!1", "!2", "!8", "!16", "!3", "!0", "q", "1", "-", "i99999999999"),
)
_STRINGS: Final = ('""', '"a"', '"abc"', '"abcdef"', '"abcdefgh"', '"a\\0b"', "5", "1.25", "nil", "{}")
_POSITIONS: Final = ("", "", "", ",1", ",2", ",3", ",0", ",-1", ",nil", ",'2'", ",{}", ",100", ",1.7")


def test_every_form_of_a_number_has_the_same_bytes(oracle: Connection) -> None:
    """Numbers at the limits of each form are packed, and read again, as in the real server, those out of range too."""
    forms = ("b", "h", "i", "l", "L", "i3", "i9", "f", "d", ">f", ">d", ">i8", ">I2")
    pieces = [
        f"local packed = struct.pack('{form}',{value}) return packed, struct.unpack('{form}',packed)"
        for form, value in product(forms, (*NUMBERS, "'12'", "'0x1f'", "'x'", "nil", "{}", "true"))
    ]
    assert [] == differences(oracle, pieces)


def test_wrong_arguments_have_the_errors_of_struct(oracle: Connection) -> None:
    """The text names the argument, its type, and the function as the script called it."""
    wrong = ("", "nil", "{}", "1", "'b'", "'b',nil", "'b',true", "'b','x'", "'b',{}", "'c0','a'", "'sc0','x\\0a'")
    pieces = [f"return struct.{name}({arguments})" for name, arguments in product(("pack", "unpack", "size"), wrong)]
    pieces += [f"return pcall(struct.{name})" for name in ("pack", "unpack", "size")]
    assert [] == differences(oracle, pieces)


def test_as_many_values_are_unpacked_as_in_c(oracle: Connection) -> None:
    """The values that one call gives end at the same number, which depends on the arguments, with the same error."""
    pieces = [
        f"local items = {{struct.unpack(('b'):rep({count}), ('a'):rep(9000){more})}} return #items"
        for count, more in product((7989, 7990, 7996, 7997, 7998, 8100), ("", ",1", ",1,2"))
    ]
    assert [] == differences(oracle, pieces)


def _pack(random: Random) -> str:
    options = _options(random)
    arguments = [random.choice(_STRINGS) if option[0] in "sc" else number(random) for option in options]
    values = [value for value, option in zip(arguments, options, strict=True) if option[0] not in "xX <>!q-1"]
    if values and random.random() < 0.05:
        values.pop()
    name = "size" if random.random() < 0.2 else "pack"
    return f"return struct.{name}({','.join((repr(''.join(options)), *values))})"


def _unpack(random: Random) -> str:
    data = bytes(
        random.choice((0, 1, 2, 3, 5, 127, 128, 255, random.randrange(256))) for _ in range(random.randint(0, 40))
    )
    return f"return struct.unpack('{''.join(_options(random))}',{quoted(data)}{random.choice(_POSITIONS)})"


def _options(random: Random) -> list[str]:
    return [random.choice(_COMMON if random.random() < 0.7 else _RARE) for _ in range(random.randint(0, 6))]


def test_any_format_packs_alike(oracle: Connection) -> None:
    """Random formats with random values have the same bytes, the same size or the same error as in the real server."""
    assert [] == differences(oracle, drawn(_pack, 1_000))


def test_any_bytes_unpack_alike(oracle: Connection) -> None:
    """Random formats read random bytes, from random positions, as the real server does."""
    assert [] == differences(oracle, drawn(_unpack, 1_000))
