"""Inline commands: how a line is cut into arguments."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.values.inline import split_inline
from resp.wire.encode import encode2
from tests.real.oracle import Oracle
from tests.resp.wire.test_protocol import answer, spelled

INLINE = [
    *(b"a b", b" a\tb ", b"\va\vb\f", b"a\xa0b \x85 \x1c", b"a\rb", b'"a b" c', b"'a b' c", b'"" a', b"''", b'a""'),
    *(b'"a\'b"', b"'a\"b'", b'"a\rb"', b'"a\tb"'),
    *(rb'"\n\r\t\b\a\\\"\q"', rb'"\x41\xfFz"', rb'"\x4"', rb'"\xzz"', rb'"\X41"', rb"a\x41", rb"a\ b", b"a\\"),
    *(rb"'it\'s\n'", rb"'a\''", rb'"a\""', rb"'\\'x'", rb'"\\"', rb'"\x"'),
    *(b'"', b"'", b'"a', b'a"', b'"a\\', rb'"a\"b', rb"'a\'b", rb"'a\' b", rb'"\x41', rb"\'a", rb"'\''\'"),
]
"""Lines of all kinds of quoting."""

REFUSED = [b'a"b c"d', b'"a"b', b"'a''b'", b"\"a\"'b'c", rb"'\'", rb"'\\'", rb'"a\"']
"""Lines that Redis takes for unbalanced quotes, though Valkey 9.1 does not."""

BEHIND_A_QUOTE: dict[bytes, list[bytes] | None] = {
    b"'a'\vb": [b"a", b"b"],
    b'"a"\fb': [b"a", b"b"],
    b'"a"\v': [b"a"],
    b"'a'\f\v b": [b"a", b"b"],
    b"'a'\v'b'\f\"c\"": [b"a", b"b", b"c"],
    b'a"b c"\vd': [b"ab c", b"d"],
    b'a\v"b"\fc': [b"a\vb", b"c"],  # within a bare argument it is no blank
    b"'a'\vb\fc": [b"a", b"b\fc"],
    b"\"\"\v''": [b"", b""],
    b"\"\v\"\f'\f'": [b"\v", b"\f"],
    b'"a"\v"b': None,
    b"'a'\f'": None,
    b"'a'\vb'c'd": None,
    b'"a\\"\v': None,
    b"'a'\x1cb": None,  # blanks of Python, not of C
    b"'a'\x85": None,
    b'"a"\xa0b': None,
}
"""What Redis 7.4 makes of lines with a vertical tab or form feed behind a quote: any blank of C may follow one there.

Valkey 9.1 goes on with the argument.
"""


def cut_one_by_one(line: bytes) -> list[bytes] | None:
    """The arguments of a line as Redis 7.4 cuts it, byte by byte; None if its quotes are wrong."""
    args: list[bytes] = []
    rest = line.lstrip(_BLANKS)
    while rest:
        bare = rest[: next((at for at, byte in enumerate(rest) if byte in b" \t\r\n\"'"), len(rest))]
        quote, rest = rest[len(bare) : len(bare) + 1], rest[len(bare) + 1 :]
        argument = bare
        if quote in {b'"', b"'"}:
            while not rest.startswith(quote):
                size, piece = _piece(rest, quote)
                if not size:
                    return None
                argument, rest = argument + piece, rest[size:]
            rest = rest[1:]
            if rest and rest[0] not in _BLANKS:
                return None
        args.append(argument)
        rest = rest.lstrip(_BLANKS)
    return args


_BLANKS = b" \t\n\v\f\r"
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\b": b"\b", b"\\a": b"\a"}


def _piece(rest: bytes, quote: bytes) -> tuple[int, bytes]:
    """How many bytes the next one takes between quotes, and what it stands for; nothing at the line's end."""
    if quote == b"'":
        return (2, b"'") if rest.startswith(b"\\'") else (len(rest[:1]), rest[:1])
    if re.match(rb"\\x[0-9a-fA-F]{2}", rest):
        return 4, bytes([int(rest[2:4], 16)])
    if rest.startswith(b"\\") and len(rest) > 1:
        return 2, _ESCAPES.get(rest[:2], rest[1:2])
    return len(rest[:1]), rest[:1]


@pytest.mark.parametrize("line", INLINE)
def test_inline_quoting(oracle_server: Oracle, line: bytes) -> None:
    """A line is cut into arguments as the oracle cuts it, which it shows by PUBSUB NUMSUB, or refused as it does."""
    args = split_inline(line)
    if args is None:
        expected = spelled("unbalanced quotes in request"), True
    else:
        expected = encode2([part for arg in args for part in (arg, 0)]), False

    assert expected == answer(oracle_server.path, b"PUBSUB NUMSUB " + line + b"\r\n")


@pytest.mark.parametrize("line", REFUSED)
def test_a_blank_follows_a_closing_quote(line: bytes) -> None:
    """What closes a quote ends the argument: anything but a blank behind it is an error, as in Redis 7."""
    assert split_inline(line) is None
    assert split_inline(b"SET " + line + b" v") is None


def test_a_quote_may_open_within_an_argument() -> None:
    """What stands in front of an opening quote belongs to the same argument."""
    assert [b"ab c", b"d"] == split_inline(b'a"b c" d')


@pytest.mark.parametrize("line", BEHIND_A_QUOTE)
def test_any_blank_ends_an_argument_behind_a_quote(line: bytes) -> None:
    """A vertical tab and a form feed are blanks behind a closing quote; what is no blank of C is an error there."""
    assert BEHIND_A_QUOTE[line] == split_inline(line)
    assert BEHIND_A_QUOTE[line] == cut_one_by_one(line)


@given(
    line=st.lists(
        st.sampled_from(
            [b"\\", b'"', b"'", b"a", b"n", b"\\x4f", b" ", b"\t", b"\r", b"\xa0", b"x4", b"\v", b"\f", *INLINE[:20]]
        ),
        max_size=10,
    ).map(b"".join)
)
@settings(max_examples=150, deadline=None)
def test_inline_quoting_against_the_oracle(oracle_server: Oracle, line: bytes) -> None:
    """Any line is cut as byte by byte, into the arguments that the oracle cuts it into, or refused with it.

    The oracle is laxer with what follows a closing quote: there it need not refuse what is refused here, nor end the
    argument at a vertical tab or a form feed, as Redis does (`BEHIND_A_QUOTE`).
    """
    text = line[:-1] if line.endswith(b"\r") else line
    args = split_inline(text)
    assert cut_one_by_one(text) == args
    if re.search(rb"[\"'][\x0b\x0c]", line):
        return
    if args is None and re.search(rb"[\"'\\].*[\"'\\]", line, re.DOTALL):
        return
    expected = spelled("unbalanced quotes in request"), True
    if args is not None:
        expected = encode2([part for arg in args for part in (arg, 0)]), False

    assert expected == answer(oracle_server.path, b"PUBSUB NUMSUB " + line + b"\n")
