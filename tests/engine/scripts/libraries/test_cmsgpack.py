"""`cmsgpack` writes and reads MessagePack as it does in the real server."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Final

import pytest

from engine.errors import CommandError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import run
from tests.engine.scripts.libraries.comparison import differences, drawn, quoted
from tests.engine.scripts.libraries.values import NUMBERS, value
from tests.real.oracle import Connection

_FUNCTIONS: Final = ("pack", "unpack", "unpack_one", "unpack_limit")
_MORE: Final = {
    "unpack": ("", ",1"),
    "unpack_one": ("", ",0", ",1", ",2", ",50", ",-1", ",nil", ",'2'", ",{}"),
    "unpack_limit": (
        *(",0", ",1", ",2", ",100", ",1,1", ",2,3", ",0,0", ",0,1", ",-1", ",1,-1", ",'1'", ",nil", "", ",1,{}"),
        *(",1,99", ",1.9,0.9"),
    ),
}


def test_numbers_take_the_shortest_form(oracle: Connection) -> None:
    """Whole numbers are integers of the fewest bytes, others floats where one holds them, else doubles."""
    pieces = [f"local packed = cmsgpack.pack({value}) return packed, cmsgpack.unpack(packed)" for value in NUMBERS]
    assert [] == differences(oracle, pieces)


def test_lengths_choose_the_heads_of_strings_and_tables(redis: Connection) -> None:
    """Strings, arrays and maps of 15 to 70,000 items begin with the same bytes, and their keys have the same order."""
    pieces = []
    for length in (15, 16, 31, 32, 255, 256, 65535, 65536):
        pieces.append(f"local packed = cmsgpack.pack(('x'):rep({length})) return packed:sub(1, 9), #packed")
        for key in ("i", "'k' .. i") if length != 65535 else ("i",):
            fill = f"local items = {{}} for i = 1, {length} do items[{key}] = i end"
            pieces.append(f"{fill} local packed = cmsgpack.pack(items) return #packed, packed:sub(1, 99)")
    assert [] == differences(redis, pieces)


def test_tables_are_packed_16_deep(oracle: Connection) -> None:
    """A table that is nested deeper is nil, also one that holds itself."""
    pieces = [
        f"local items = 1 for i = 1, {depth} do items = {{{key}items}} end return cmsgpack.pack(items)"
        for depth, key in product(range(14, 19), ("", "a="))
    ]
    pieces.append("local items = {} items[1] = items return cmsgpack.pack(items)")
    assert [] == differences(oracle, pieces)


def test_as_many_values_fit_as_in_c(oracle: Connection) -> None:
    """One call takes and gives as many values, and reads tables nested as deep, as the stack of C allows there."""
    pieces = [f"return #cmsgpack.pack(unpack({{}}, 1, {count}))" for count in (3999, 4000, 4001)]
    for count, more in product((7998, 7999, 8000), ("", ", 1")):
        pieces.append(f"local items = {{cmsgpack.unpack(('b'):rep({count}){more})}} return #items")
        pieces.append(f"local items = {{cmsgpack.unpack_limit(('b'):rep({count}), {count})}} return #items")
    for count, head in product((3998, 3999, 4000, 4001, 5000), ("\\145", "\\129\\1")):
        pieces.append(f"return type(cmsgpack.unpack(('{head}'):rep({count}) .. 'a'))")
    assert [] == differences(oracle, pieces)


def test_wrong_arguments_have_the_errors_of_cmsgpack(oracle: Connection) -> None:
    """The text names the argument, its type, and the function as the script called it."""
    wrong = ("", "nil", "{}", "1", "'b'", "'b',nil", "'b',true", "'b','x'", "'b',{}", "{},1", "nil,1", "nil,nil")
    pieces = [f"return cmsgpack.{name}({arguments})" for name, arguments in product(_FUNCTIONS, wrong)]
    pieces += [f"return pcall(cmsgpack.{name})" for name in _FUNCTIONS]
    pieces += ["return cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION"]
    assert [] == differences(oracle, pieces)


def _few_keys(random: Random) -> str:
    return _pack(random, keys_max=1)


def _many_keys(random: Random) -> str:
    return _pack(random, keys_max=6)


def _pack(random: Random, keys_max: int) -> str:
    values = ",".join(value(random, keys_max=keys_max) for _ in range(random.choice((1, 1, 1, 2, 3))))
    return f"local packed = cmsgpack.pack({values}) return packed, cmsgpack.unpack(packed)"


def _unpack(random: Random) -> str:
    heads = (random.randrange(256), random.randrange(0xC0, 0xE0), random.randrange(0x80, 0xA8), random.randrange(5))
    data = bytes(random.choice(heads) for _ in range(random.randint(0, 30)))
    name = random.choice(tuple(_MORE))
    return f"return cmsgpack.{name}({quoted(data)}{random.choice(_MORE[name])})"


def test_any_value_has_the_same_bytes(oracle: Connection) -> None:
    """Random values, whose tables have at most one key of a kind that has no order, are packed and read alike."""
    assert [] == differences(oracle, drawn(_few_keys, 500))


def test_any_table_has_its_keys_in_the_order_of_redis(redis: Connection) -> None:
    """Random tables with keys of any kind are packed in the order in which Redis packs them."""
    assert [] == differences(redis, drawn(_many_keys, 500), ordered=True)


def test_any_bytes_are_read_alike(oracle: Connection) -> None:
    """Random bytes, most of which are no MessagePack, give the same values or the same error."""
    assert [] == differences(oracle, drawn(_unpack, 1_500))


def test_a_table_whose_order_is_that_of_addresses_is_refused() -> None:
    """Two keys of which one is a table would come in another order at the next replay; one alone has an order."""
    runtime = ScriptRuntime()
    assert [b"\x81\x90\x01"] == run(b"return {cmsgpack.pack({[{}] = 1})}", runtime=runtime)
    with pytest.raises(CommandError, match="user_script:1: a table with a key that is a table, a function"):
        run(b"return {cmsgpack.pack({{[{}] = 1, a = 2}})}", runtime=runtime)
