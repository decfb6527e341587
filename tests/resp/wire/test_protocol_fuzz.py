"""Any bytes, cut anywhere: commands or one ProtocolError, the same ones however cut, in memory as was fed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resp.wire.encode import encode2
from resp.wire.protocol import Parser, ProtocolError

FRAGMENTS = [
    *(b"*", b"$", b"\r", b"\n", b"\r\n", b"0", b"1", b"2", b"11", b"-1", b"\0", b" ", b'"', b"'", b"\\", b"\\x4", b"a"),
    *(
        b"*1\r\n",
        b"*2\r\n",
        b"*0\r\n",
        b"$1\r\n",
        b"$2\r\n",
        b"$0\r\n\r\n",
        b"$1\r\na\r\n",
        b"$4\r\nPOST\r\n",
        b"host: ",
    ),
    *(
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        b"PING\r\n",
        b"*11\r\n",
        b"$99\r\n",
        b"$20000\r\n",
        b"\xff",
        b"x" * 20,
        b"*3\r\n",
    ),
]
ALMOST_REQUESTS = st.lists(st.sampled_from(FRAGMENTS), max_size=20).map(b"".join)
ARGUMENTS = st.binary(max_size=12) | st.sampled_from([b"\r\n", b"a\r\nb", b"$1", b"*1\r\n$1\r\na\r\n", b"x" * 1500])
VALID = st.lists(
    st.lists(ARGUMENTS, min_size=1, max_size=5).map(encode2) | st.sampled_from([b"*0\r\n", b"PING\n", b"\r\n"]),
    max_size=8,
).map(b"".join)
INPUTS = st.binary(max_size=60) | ALMOST_REQUESTS | VALID | st.tuples(VALID, ALMOST_REQUESTS).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=5)


def outcome(
    pieces: list[bytes], *, authenticated: bool, command_bytes_max: int = 1 << 20
) -> tuple[list[list[bytes]], tuple[str, bool] | None, int]:
    """Commands, error and bytes held back of these pieces; asserts what has to hold after each of them."""
    parser = Parser(authenticated=authenticated, command_bytes_max=command_bytes_max)
    commands: list[list[bytes]] = []
    fed = 0
    for piece in pieces:
        commands += parser.feed(piece)
        while parser.held:
            commands += parser.feed(b"")
        fed += len(piece)
        assert parser.buffered_bytes <= fed
    assert all(command and all(type(arg) is bytes for arg in command) for command in commands)
    error = parser.error
    assert error is None or (type(error) is ProtocolError and parser.buffered_bytes == 0)
    return commands, None if error is None else (error.message, error.silent), parser.buffered_bytes


@pytest.mark.parametrize("authenticated", [True, False])
@given(data=INPUTS, cuts=CUTS)
@settings(max_examples=400, deadline=None)
def test_cut_anywhere(authenticated: bool, data: bytes, cuts: list[int]) -> None:
    """Whole, byte by byte and in any pieces, bytes give the same commands and the same error and leave as much."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[start:end] for start, end in pairwise(edges)]

    whole = outcome([data], authenticated=authenticated, command_bytes_max=1000)

    assert whole == outcome([bytes([byte]) for byte in data], authenticated=authenticated, command_bytes_max=1000)
    assert whole == outcome(pieces, authenticated=authenticated, command_bytes_max=1000)


@given(data=INPUTS)
@settings(max_examples=400, deadline=None)
def test_fast_and_strict_agree(data: bytes) -> None:
    """The strict way alone, which serves whoever has not authenticated, finds what both ways together find.

    It has smaller limits, so inputs that reach them are left to the other tests.
    """
    strict = outcome([data], authenticated=False)
    if strict[1] is None or not strict[1][0].startswith("unauthenticated"):
        assert outcome([data], authenticated=True) == strict


@given(commands=st.lists(st.lists(ARGUMENTS, min_size=1, max_size=12), max_size=20))
@settings(max_examples=200, deadline=None)
def test_what_was_sent_is_what_comes_out(commands: list[list[bytes]]) -> None:
    """Commands of any bytes come out as they were sent."""
    assert (commands, None, 0) == outcome([b"".join(map(encode2, commands))], authenticated=True)


@given(
    st.integers(1, 4).flatmap(lambda count: st.lists(st.lists(ARGUMENTS, min_size=count, max_size=count), max_size=20)),
    st.integers(0, 2000),
    st.sampled_from([b"", b"0", b"2", b"\r", b"\r\n", b"*", b"x", b"$3\r\nabc\r\n"]),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_a_fault_in_a_pipeline_of_commands_of_one_width(
    commands: list[list[bytes]], at: int, fault: bytes, inserted: bool
) -> None:
    """What is taken in one step, or would be but for a fault anywhere in it, is as the strict way has it."""
    data = b"".join(map(encode2, commands))
    at %= len(data) + 1
    data = data[:at] + fault + data[at if inserted else at + len(fault) :]

    strict = outcome([data], authenticated=False)
    if strict[1] is None or not strict[1][0].startswith("unauthenticated"):
        assert outcome([data], authenticated=True) == strict


@pytest.mark.parametrize("header", [b"$1", b"$3", b"$02", b"$+2", b"$-1", b":2", b"*2", b"$2 "])
@pytest.mark.parametrize("place", [1, 8, 15])
def test_a_wrong_header_in_a_pipeline_of_commands_of_one_width(header: bytes, place: int) -> None:
    """One wrong length of sixteen is found, and what stands before it is given out."""
    right = b"*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$1\r\nv\r\n"
    data = right * place + right.replace(b"$2", header) + right * (15 - place)

    commands, error, _ = outcome([data], authenticated=True)

    assert (commands, error) == outcome([data], authenticated=False)[:2]
    assert [[b"SET", b"k1", b"v"]] * place == commands
    assert error is not None


def test_no_browser_in_a_pipeline_of_commands_of_one_width() -> None:
    """A header of HTTP among commands of its width ends the connection, as anywhere."""
    right = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

    commands, error, _ = outcome([right * 9 + right.replace(b"$3\r\nGET", b"$5\r\nHost:") + right], authenticated=True)

    assert [[b"GET", b"k"]] * 9 == commands
    assert error is not None
    assert error[1]


@pytest.mark.parametrize("fault", [b"*1", b"*3", b"*02", b"*0", b"GET", b""])
@pytest.mark.parametrize("place", [1, 8, 15])
def test_a_wrong_count_in_a_pipeline_of_commands_of_one_width(fault: bytes, place: int) -> None:
    """One of sixteen commands announces other arguments than it has: it is taken as by itself."""
    right = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
    data = right * place + right.replace(b"*2", fault) + right * (15 - place)

    found = outcome([data], authenticated=True)

    assert found == outcome([data], authenticated=False)
    assert [[b"GET", b"k"]] * place == found[0][:place]


@pytest.mark.parametrize("rest", [b"*", b"*2", b"$", b"x"])
def test_the_beginning_of_another_behind_commands_of_one_width(rest: bytes) -> None:
    """What has begun behind a pipeline is kept for what comes next."""
    right = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

    assert ([[b"GET", b"k"]] * 9, None, len(rest)) == outcome([right * 9 + rest], authenticated=True)
