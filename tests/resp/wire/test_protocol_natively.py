"""Requests that are parsed in C, with Python behind it, come to what Python alone makes of them."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resp.wire import protocol
from resp.wire.encode import encode2
from resp.wire.protocol import Parser
from tests.engine.native.twins import part_in_c, running
from tests.resp.wire.test_protocol import COMMANDS, ERRORS
from tests.resp.wire.test_protocol_fuzz import CUTS, INPUTS, VALID

_MORE = [
    b"*1024\r\n" + b"$1\r\nx\r\n" * 1024,
    b"*1025\r\n" + b"$1\r\nx\r\n" * 1025,
    b"*10000\r\n",
    b"*1\r\n$4\r\npOsT\r\n",
    b"*1\r\n$5\r\nHost:\r\n",
    b"*2\r\n$3\r\nGET\r\n$4\r\nPOST\r\n",
    b"*1\r\n$00\r\n\r\n",
    b"*1\r\n$1000000000\r\n",
    b"*1\r\n$1\r\nab\r\n",
]


def parsed(pieces: list[bytes], *, natively: bool, **limits: Any) -> tuple[object, ...]:
    """Commands, error and what is left after each piece."""
    with running(natively=natively):
        parser = Parser(authenticated=True, **limits)
    steps = []
    for piece in pieces:
        commands = parser.feed(piece)
        error = None if parser.error is None else (parser.error.message, parser.error.silent)
        steps.append((commands, [list(map(type, command)) for command in commands], error, parser.buffered_bytes))
    return tuple(steps)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes in pieces."""
    places = [0, *sorted(place % (len(data) + 1) for place in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]


@pytest.mark.parametrize("data", [*COMMANDS, *ERRORS, *_MORE])
def test_each_known_request_is_parsed_alike(data: bytes) -> None:
    """Alone, and behind and before commands that are as they should be."""
    whole = encode2([b"SET", b"k", b"v"])
    for around in (data, whole + data, whole + data + whole, data + whole):
        assert parsed([around], natively=False) == parsed([around], natively=True)


@settings(max_examples=200)
@given(st.one_of(INPUTS, VALID), CUTS, st.sampled_from([5, 100, 1 << 20]))
def test_any_bytes_are_parsed_alike(data: bytes, cuts: list[int], bytes_max: int) -> None:
    """However they are cut, and under any limit."""
    pieces = cut(data, cuts)
    limits = {"bulk_bytes_max": bytes_max, "command_bytes_max": bytes_max}

    assert parsed(pieces, natively=False, **limits) == parsed(pieces, natively=True, **limits)


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Python took commands of other counts, the comparison would show it."""
    monkeypatch.setattr(protocol, "_COUNTS", {b"*3": 2})
    data = encode2([b"SET", b"k", b"v"])

    assert parsed([data], natively=False) != parsed([data], natively=True)


def test_parsing_leaves_nothing_behind() -> None:
    """What is parsed goes with its commands, of bytes that end in an error too."""
    hot = part_in_c()
    data = encode2([b"SET", b"k" * 50, b"v" * 600]) * 50 + b"*2\r\n$1\r\na\r\n$1\r\nab\r\n"
    hot.parse_commands(data, [], 1024)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        hot.parse_commands(data, [], 1024)

    assert sys.getallocatedblocks() - before < 200
