"""`cjson` writes and reads JSON as it does in the real server."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any, Final

from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import run
from tests.engine.scripts.libraries.comparison import differences, drawn, quoted
from tests.engine.scripts.libraries.values import NUMBERS, value
from tests.real.oracle import Connection

_RESTORE: Final = (
    "cjson.encode_sparse_array(false, 2, 10) cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) "
    "cjson.encode_number_precision(14) cjson.encode_keep_buffer(true) cjson.encode_invalid_numbers(false) "
    "cjson.decode_invalid_numbers(true)"
)
"""The defaults: in the real server a configuration stays for the scripts that follow."""

_SETTINGS: Final = (
    *("encode_sparse_array", "encode_max_depth", "decode_max_depth", "encode_number_precision", "encode_keep_buffer"),
    *("encode_invalid_numbers", "decode_invalid_numbers"),
)
_TOKENS: Final = (
    *("{", "}", "[", "]", ",", ":", '"a"', '"b"', "1", "2", "true", "false", "null", " ", "\n"),
    *(
        '"',
        "\\",
        "-",
        "+",
        "0",
        "0x1F",
        "0x1.8p3",
        "0x",
        "1e5",
        "1e",
        "1.",
        ".5",
        "-.5",
        "1.5e+3",
        "1E-2",
        "inf",
        "-inf",
    ),
    *("Infinity", "nan", "NaN", "-nan", "nan(12)", "nan(", "infin", "tru", "nul", "x", "00", "01", "-01", "-0", "+1"),
    *("-0x10", '"\\u0041"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ud83dx"', '"\\u12"', '"\\uD83D\\u0041"'),
    *('"\\x"', '"\\', '"\\n\\t\\"\\/"', "1e400", "1e-400", "123456789012345678901234567890", "\0", "\xe9", "//"),
    *("0x1fffffffffffffffff", "--1", "1-1", "0.1.2", "0e", "1e+", "0x.8", "0x1p", '"a\0b"'),
)
_COMMON_TOKENS: Final = 15


def test_every_byte_is_escaped_and_read_alike(oracle: Connection) -> None:
    """Each byte within a string, behind a backslash, before a value and within an array gives what it gives there."""
    forms = (
        *('return cjson.encode("a{0}b"), cjson.decode("\\"a{0}b\\"")', 'return cjson.decode("\\"a\\\\{0}0041b\\"")'),
        *('return cjson.decode("{0}1")', 'return cjson.decode("[1{0}2]")'),
    )
    assert [] == differences(oracle, [form.format(f"\\{byte:03d}") for form, byte in product(forms, range(256))])


def test_every_token_is_read_alike(oracle: Connection) -> None:
    """Numbers of C beside those of JSON, wrong escapes and wrong words are read, or refused with the same text."""
    pieces = []
    for token in _TOKENS:
        pieces += [f"return cjson.decode({quoted(text.encode('latin-1'))})" for text in (token, f"[{token}]")]
        strict = f"pcall(cjson.decode, {quoted(f'[{token} ]'.encode('latin-1'))})"
        pieces.append(f"cjson.decode_invalid_numbers(false) local ok, found = {strict} {_RESTORE} return ok, found")
    assert [] == differences(oracle, pieces)


def test_numbers_are_written_alike(oracle: Connection) -> None:
    """Numbers have 14 digits or as many as the script asks for; infinities and NaN are refused, written, or null."""
    pieces = []
    for number in NUMBERS:
        pieces += [f"return cjson.encode({number})", f"return cjson.encode({{[{number}] = 1}})"]
        for setting in ("encode_number_precision(1)", "encode_number_precision(13)"):
            pieces.append(f"cjson.{setting} local _, text = pcall(cjson.encode, {number}) {_RESTORE} return text")
        for setting in ("true", "'on'", "'null'", "'off'"):
            call = f"pcall(cjson.encode, {{{number}, {{[{number}] = {number}}}}})"
            pieces.append(f"cjson.encode_invalid_numbers({setting}) local _, text = {call} {_RESTORE} return text")
    assert [] == differences(oracle, pieces)


def test_sparse_arrays_are_arrays_objects_or_errors_alike(oracle: Connection) -> None:
    """What becomes of an array with holes depends on its length, its holes and the setting, up to where an int ends."""
    settings = (
        "true",
        "false",
        "true,0",
        "false,0",
        "true,1",
        "true,2,3",
        "false,3,3",
        "true,0,0",
        "true,2147483647,0",
    )
    tables = (
        *("{[1]=1,[3]=2}", "{[11]=1}", "{[10]=1}", "{[5]=1,[6]=2}", "{[2147483648]=1}", "{[2147483648]=1,[2]=1}"),
        *("{[1]=1,[4294967296]=1}", "{[4]=1,[2]=3}", "{[25]=1,[1]=1,[2]=2,[3]=3,[4]=4}", "{nil,nil,3}"),
    )
    pieces = [
        f"cjson.encode_sparse_array({setting}) local _, text = pcall(cjson.encode, {table}) {_RESTORE} return text"
        for setting, table in product(settings, tables)
    ]
    assert [] == differences(oracle, pieces)


def test_nesting_ends_where_it_ends_there(oracle: Connection) -> None:
    """JSON and tables nest 1,000 deep, or as a script allows, and never deeper than the stack of C allows there."""
    pieces = []
    for depth, setting in (
        (999, 1000),
        (1000, 1000),
        (1001, 1000),
        *((at, 9999) for at in (2667, 3999, 4000, 7997, 7998)),
    ):
        for table in ("{items}", "{a=items}"):
            made = f"local items = 1 for i = 1, {depth} do items = {table} end cjson.encode_max_depth({setting})"
            pieces.append(
                f"{made} local ok, text = pcall(cjson.encode, items) {_RESTORE} return ok, #text, text:sub(1, 60)"
            )
        for text in ("('['):rep({0}) .. (']'):rep({0})", "('{{\"a\":'):rep({0}) .. '1' .. ('}}'):rep({0})"):
            called = f"cjson.decode_max_depth({setting}) local ok, read = pcall(cjson.decode, {text.format(depth)})"
            pieces.append(f"{called} {_RESTORE} return ok, type(read) == 'string' and read")
    assert [] == differences(oracle, pieces)


def test_settings_are_checked_and_told_alike(oracle: Connection) -> None:
    """Each setting takes and returns what it does there, and refuses the same values with the same texts."""
    values = (
        *(
            "",
            "nil",
            "{}",
            "1",
            "2",
            "0",
            "-1",
            "15",
            "14.9",
            "1e10",
            "'2'",
            "'on'",
            "'off'",
            "'null'",
            "true",
            "false",
        ),
        *("'b'", "1,2", "nil,nil", "true,1", "true,1,2", "true,1,2,3", "false,'x'", "false,3,'y'", "nil,nil,nil"),
        *("'on',-1", "'on\\0x'", "2147483648", "4294967297", "'o\\0n'"),
    )
    pieces = [
        f"local first, second, third = cjson.{name}({wrong}) {_RESTORE} return first, second, third"
        for name, wrong in product((*_SETTINGS, "encode", "decode"), values)
    ]
    pieces += [f"return pcall(cjson.{name})" for name in (*_SETTINGS, "encode", "decode")]
    pieces.append(_RESTORE)
    assert [] == differences(oracle, pieces)


def test_values_that_json_has_not_are_refused_alike(oracle: Connection) -> None:
    """Functions, threads, keys of other types and tables that hold themselves have the errors of the real server."""
    pieces = [
        *("return cjson.encode(tostring)", "return cjson.encode({{[true]=1}})", "return cjson.encode({[{}]=1})"),
        *("return cjson.encode(coroutine.create(function() end))", "local t = {} t[1] = t return cjson.encode(t)"),
        *("return cjson.encode({true,false,cjson.null})", "return cjson.decode(5)", "return cjson.decode(1e300)"),
        "return cjson.encode(setmetatable({[3] = 1}, {__index = function() return 5 end}))",
        "local other = cjson.new() other.encode_max_depth(3) return cjson.encode_max_depth(), other.encode_max_depth()",
        "return cjson.new().null == cjson.null, type(cjson.null), cjson._NAME, cjson._VERSION",
    ]
    assert [] == differences(oracle, pieces)


def _tokens(random: Random) -> str:
    tokens = (
        random.choice(_TOKENS[:_COMMON_TOKENS] if random.random() < 0.8 else _TOKENS)
        for _ in range(random.randint(1, 9))
    )
    return f"return cjson.decode({quoted(''.join(tokens).encode('latin-1'))})"


def _json(random: Random, depth: int = 0) -> Any:
    kind = random.random()
    if depth > 4 or kind < 0.4:
        return random.choice((1, 2.5, -3, 1e20, "a", "é", '\n"', True, False, None, "", 10**15, 0.1))
    if kind < 0.7:
        return [_json(random, depth + 1) for _ in range(random.randint(0, 5))]
    return {
        random.choice("abcdefgh") * random.randint(0, 3): _json(random, depth + 1) for _ in range(random.randint(0, 5))
    }


def _damaged(random: Random) -> str:
    indent = random.choice((None, None, 1))
    text = json.dumps(_json(random), ensure_ascii=random.random() < 0.5, indent=indent).encode()
    if random.random() < 0.5:
        place = random.randrange(len(text))
        byte = random.choice((random.randrange(256), *b'{}[]",:0e'))
        text = text[:place] + bytes([byte]) + text[place + random.randint(0, 1) :]
    return f"return cjson.decode({quoted(text)})"


def _few_keys(random: Random) -> str:
    return f"return cjson.encode({value(random, keys_max=1)})"


def _many_keys(random: Random) -> str:
    return f"return cjson.encode({value(random, keys_max=6)})"


def test_any_tokens_are_read_alike(oracle: Connection) -> None:
    """Random tokens, most of which make no JSON, give the same value or the same error."""
    assert [] == differences(oracle, drawn(_tokens, 1_000))


def test_any_json_is_read_alike(oracle: Connection) -> None:
    """Random JSON, every other one with a wrong byte, gives the same value or the same error."""
    assert [] == differences(oracle, drawn(_damaged, 700))


def test_any_value_is_written_alike(oracle: Connection) -> None:
    """Random values, whose tables have at most one key of a kind that has no order, have the same JSON."""
    assert [] == differences(oracle, drawn(_few_keys, 500))


def test_any_object_has_its_names_in_the_order_of_redis(redis: Connection) -> None:
    """Random tables with keys of any kind are written in the order in which Redis writes them."""
    assert [] == differences(redis, drawn(_many_keys, 500), ordered=True)


def test_settings_last_for_one_run() -> None:
    """A setting that a script leaves behind is gone in the next one, unlike in Redis."""
    runtime = ScriptRuntime()
    run(b"cjson.encode_max_depth(1) cjson.encode_number_precision(3) return {}", runtime=runtime)
    assert [b"[[0.33333333333333]]"] == run(b"return {cjson.encode({{1/3}})}", runtime=runtime)
