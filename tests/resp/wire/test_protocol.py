"""Requests are parsed as valkey-server 9.1 parses the same bytes, errors included."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from resp.wire.encode import encode2
from resp.wire.protocol import LINE_BYTES_MAX, Parser, TooLarge
from tests.real.oracle import Connection, Oracle

PING = b"*1\r\n$4\r\nPING\r\n"
ROUNDS = 40  # of the oracle's event loop; it takes 16 KiB of a connection in each
LINE = LINE_BYTES_MAX

COMMANDS: dict[bytes, list[list[bytes]]] = {
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n": [[b"GET", b"k"]],
    PING + PING: [[b"PING"], [b"PING"]],
    b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n": [[b"SET", b"", b""]],
    b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n" + PING: [[b"ECHO", b"\r\n"], [b"PING"]],
    b"*2\r\n$4\r\nECHO\r\n$5\r\n$1\r\na\r\n" + PING: [[b"ECHO", b"$1\r\na"], [b"PING"]],
    b"*2\r\n$4\r\nECHO\r\n$3\r\n\0\xff\n\r\n": [[b"ECHO", b"\0\xff\n"]],
    b"*1\r\n$0\r\n\r\n" + PING: [[b""], [b"PING"]],
    b"*0\r\n*-1\r\n*-9223372036854775808\r\n" + PING: [[b"PING"]],
    b"\r\n\n  \t\r\n" + PING: [[b"PING"]],
    b"PING\nPING\r\n" + PING + b"ECHO a\n": [[b"PING"], [b"PING"], [b"PING"], [b"ECHO", b"a"]],
    b"PING\r\r\n": [[b"PING"]],
    b"PING\rPING\r\n": [[b"PING", b"PING"]],
    b" *1\r\n": [[b"*1"]],
    b"*1\r\n$4\r\nPIN": [],
    b"*1\r\n$4\r\nPING\r": [],
    b"*1\n$4\nPING\n": [],
    b"\0\r\nPING\r\n": [],  # a NUL hides the end of an inline line
    b"*1048577\r\n": [],
    b"*1\r\n$536870912\r\n": [],
    b"x" * LINE: [],
    b"*" + b"1" * (LINE - 1): [],
    b"*1\r\n$" + b"1" * (LINE - 1): [],
}
"""What is no error, and the commands in it, for a client that has authenticated."""

ERRORS: dict[bytes, str] = {
    b"*1\r\n+OK\r\n": "expected '$', got '+'",
    b"*1\r\n+OK\rx": "expected '$', got '+'",
    b"*2\r\n$4\r\nECHO\r\n:1\r\n": "expected '$', got ':'",
    b"*1\r\n\r\n": "expected '$', got '\r'",
    b"*1\r\n\xff\r\n": "expected '$', got '\udcff'",
    b"*1\r\n\0\r\n": "expected '$', got '\0'",
    b"*2147483648\r\n": "invalid multibulk length",
    b"*-9223372036854775809\r\n": "invalid multibulk length",
    b"*\r\n": "invalid multibulk length",
    b"*a\r\n": "invalid multibulk length",
    b"*+1\r\n": "invalid multibulk length",
    b"*01\r\n": "invalid multibulk length",
    b"*-0\r\n": "invalid multibulk length",
    b"* 1\r\n": "invalid multibulk length",
    b"*1 \r\n": "invalid multibulk length",
    b"*1\r\n$536870913\r\n": "invalid bulk length",
    b"*1\r\n$-1\r\n": "invalid bulk length",
    b"*1\r\n$\r\n": "invalid bulk length",
    b"*1\r\n$+4\r\nPING\r\n": "invalid bulk length",
    b"*1\r\n$04\r\nPING\r\n": "invalid bulk length",
    b"*1\r\n$4xPING\r\n": "invalid bulk length",
    b"*a\rx": "invalid CRLF in request",
    b"*1\rx$4\r\nPING\r\n": "invalid CRLF in request",
    b"*1\r\n$a\rx": "invalid CRLF in request",
    b"*1\r\n$2\r\nPING\r\n": "invalid CRLF in request",
    b"*1\r\n$4\r\nPINGx\n": "invalid CRLF in request",
    b'SET "a\r\n': "unbalanced quotes in request",
    b"SET 'a\r\n": "unbalanced quotes in request",
    b"x" * (LINE + 1): "too big inline request",
    b"\0\r\n" + b"x" * LINE: "too big inline request",
    b"*" + b"1" * LINE: "too big mbulk count string",
    b"*1\r\n$" + b"1" * LINE: "too big bulk count string",
    b"*1\r\n" + b"x" * (LINE + 1): "too big bulk count string",
}
"""Everything that is an error, and its text."""

HTTP = [
    b"POST / HTTP/1.1\r\n",
    b"post\r\n",
    b"Host: x\r\n",
    b"*1\r\n$4\r\npOST\r\n",
    b"*2\r\n$5\r\nHOST:\r\n$1\r\nx\r\n",
]


@pytest.fixture
def parser() -> Parser:
    """Of a client that has authenticated."""
    return Parser(authenticated=True)


def one_by_one(parser: Parser, data: bytes) -> list[list[bytes]]:
    """What `parser` makes of the bytes when each comes alone."""
    return [command for byte in data for command in parser.feed(bytes([byte]))]


def answer(path: str, data: bytes) -> tuple[bytes, bool]:
    """What the oracle sends back for these bytes, and whether it closes."""
    with socket.socket(socket.AF_UNIX) as client, contextlib.closing(Connection(path)) as other:
        client.connect(path)
        client.sendall(data)
        for _ in range(ROUNDS):
            other.call("PING")
        received = b""
        with contextlib.suppress(BlockingIOError):
            while chunk := client.recv(65536, socket.MSG_DONTWAIT):
                received += chunk
            return received, True
        return received, False


def canonical(command: list[bytes]) -> bytes:
    """The command as every client sends it."""
    return encode2(command)


def spelled(message: str) -> bytes:
    """How an error looks on the wire: no line end, as in every error text."""
    text = message.encode(errors="surrogateescape").replace(b"\r", b" ")
    return b"-ERR Protocol error: " + text + b"\r\n"


@pytest.fixture
def locked_oracle(oracle_server: Oracle) -> Iterator[str]:
    """The path of the oracle while it wants the password `p`."""
    control = oracle_server.connect()
    control.call("CONFIG", "SET", "requirepass", "p")
    yield oracle_server.path
    control.call("CONFIG", "SET", "requirepass", "")
    control.close()


@pytest.mark.parametrize("data", COMMANDS)
def test_commands(data: bytes) -> None:
    """Bytes give the commands that the table says, whole and one by one, and are no error."""
    whole, single = Parser(authenticated=True), Parser(authenticated=True)

    assert COMMANDS[data] == whole.feed(data)
    assert COMMANDS[data] == one_by_one(single, data)
    assert (None, None) == (whole.error, single.error)


@pytest.mark.parametrize("data", ERRORS)
def test_errors(data: bytes) -> None:
    """Wrong bytes give the error that the table says, whole and one by one, after what was right before them."""
    whole, single = Parser(authenticated=True), Parser(authenticated=True)

    assert [[b"PING"]] == whole.feed(PING + data)
    assert [[b"PING"]] == one_by_one(single, PING + data)
    for parser in whole, single:
        assert parser.error is not None
        assert (ERRORS[data], False) == (parser.error.message, parser.error.silent)


@pytest.mark.parametrize("data", COMMANDS)
def test_oracle_accepts(oracle_server: Oracle, data: bytes) -> None:
    """The oracle answers the bytes as it answers the commands that we find in them, and closes nothing."""
    commands = b"".join(map(canonical, COMMANDS[data]))

    received, closed = answer(oracle_server.path, data)

    assert (answer(oracle_server.path, commands), False) == ((received, closed), closed)


@pytest.mark.parametrize("data", ERRORS)
def test_oracle_errors(oracle_server: Oracle, data: bytes) -> None:
    """The oracle sends the same error text and closes."""
    assert (spelled(ERRORS[data]), True) == answer(oracle_server.path, data)


@pytest.mark.parametrize("data", HTTP)
def test_http(oracle_server: Oracle, parser: Parser, data: bytes) -> None:
    """What looks like HTTP closes the connection without a word, in whatever form and case, as with the oracle."""
    assert [[b"PING"]] == parser.feed(PING + data + PING)
    assert parser.error is not None
    assert parser.error.silent
    assert (b"", True) == answer(oracle_server.path, data)


@pytest.mark.parametrize("data", [b"host\r\n", b"POST:\r\n", b"Host:x\r\n", b"PING POST\r\n"])
def test_not_http(parser: Parser, data: bytes) -> None:
    """Only the exact words as a command's name are HTTP."""
    assert [data.split()] == parser.feed(data)


def test_after_an_error(parser: Parser) -> None:
    """After an error nothing is taken any more, and nothing is kept."""
    parser.feed(b"*2\r\n$1\r\na\r\n+")
    parser.feed(b"\r\n")
    error = parser.error

    assert [] == parser.feed(PING)
    assert error is parser.error
    assert 0 == parser.buffered_bytes


def test_value_limit() -> None:
    """`bulk_bytes_max` is the longest argument, one byte more is an error, and it may change while connected."""
    parser = Parser(bulk_bytes_max=5, authenticated=True)

    assert [[b"12345"]] == parser.feed(b"*1\r\n$5\r\n12345\r\n")
    parser.feed(b"*1\r\n$6\r\n123456\r\n")
    assert "invalid bulk length" == str(parser.error)

    parser = Parser(bulk_bytes_max=5, authenticated=True)
    parser.bulk_bytes_max = 6
    assert [[b"123456"]] == parser.feed(b"*1\r\n$6\r\n123456\r\n")


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_command_that_is_too_large_is_passed_over(step: int) -> None:
    """The arguments of one may have ten bytes together: one more, and nothing is kept of it, whatever is in it."""
    fits, too_large = (b"*3\r\n$1\r\na\r\n$4\r\nbbbb\r\n$%d\r\n%b\r\n" % (n, b"*" * n) for n in (5, 6))
    many = b"*9\r\n" + b"$2\r\n\r\n\r\n" * 9
    data = fits + too_large + PING + many + too_large + fits
    parser = Parser(command_bytes_max=10, authenticated=True)
    commands: list[list[bytes]] = []
    kept = 0
    for start in range(0, len(data), step):
        commands += parser.feed(data[start : start + step])
        kept = max(kept, parser.buffered_bytes)

    whole = [b"a", b"bbbb", b"*****"]
    assert [whole, TooLarge(), [b"PING"], TooLarge(), TooLarge(), whole] == commands
    assert [list, TooLarge, list, TooLarge, TooLarge, list] == [type(command) for command in commands]
    assert kept < 50  # ten bytes, and their headers
    assert 0 == parser.buffered_bytes


def test_what_is_passed_over_has_to_be_a_request() -> None:
    """An argument that is not kept ends with CRLF as well, and has a length that one may have."""
    wrong_end, too_long = (Parser(bulk_bytes_max=20, command_bytes_max=10, authenticated=True) for _ in range(2))
    wrong_end.feed(b"*1\r\n$11\r\n" + b"x" * 11 + b"yz")
    too_long.feed(b"*2\r\n$11\r\n" + b"x" * 11 + b"\r\n$21\r\n")

    assert ("invalid CRLF in request", "invalid bulk length") == (str(wrong_end.error), str(too_long.error))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"*10\r\n", None),
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*1\r\n$16384\r\n", None),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
    ],
)
def test_unauthenticated(locked_oracle: str, data: bytes, message: str | None) -> None:
    """Before AUTH, ten arguments of 16 KiB are the most, one more is the oracle's error."""
    parser = Parser()

    assert [] == parser.feed(data)
    assert message == (parser.error and parser.error.message)
    assert ((b"", False) if message is None else (spelled(message), True)) == answer(locked_oracle, data)


@pytest.mark.parametrize(
    "large", [b"*11\r\n" + b"$4\r\nPING\r\n" * 11, b"*2\r\n$4\r\nECHO\r\n$20000\r\n%b\r\n" % (b"x" * 20000)]
)
def test_authenticating_in_a_pipeline(large: bytes) -> None:
    """A large command right behind an AUTH waits for what the AUTH does, and is then taken or refused."""
    auth = b"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n"
    taken, refused = Parser(), Parser()

    for parser in taken, refused:
        assert [[b"AUTH", b"p"]] == parser.feed(auth + large + PING)
        assert parser.held
        assert parser.buffered_bytes > 0
    taken.authenticated = True
    assert [large.split(b"\r\n")[2:-1:2], [b"PING"]] == taken.feed(b"")
    assert (False, None, 0) == (taken.held, taken.error, taken.buffered_bytes)
    assert [] == refused.feed(b"")
    assert refused.error is not None
    assert refused.error.message.startswith("unauthenticated")
    assert not refused.held


def test_a_large_value_in_pieces() -> None:
    """A value of 16 MiB that is all line ends, in pieces of 64 KiB, is one argument, and is counted while it comes."""
    parser = Parser(command_bytes_max=32 << 20, authenticated=True)
    value = b"\r\n" * (8 << 20)
    data = b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(value), value)
    step = 1 << 16

    for start in range(0, len(data) - step, step):
        assert [] == parser.feed(data[start : start + step])
        assert start + step - len(b"*2\r\n") == parser.buffered_bytes
    assert [[b"ECHO", value], [b"PING"]] == parser.feed(data[start + step :] + PING)
    assert 0 == parser.buffered_bytes


def test_many_arguments_byte_by_byte(parser: Parser) -> None:
    """A command of 50,000 arguments may come byte by byte."""
    args = [b"%d" % number for number in range(50_000)]

    assert [args] == one_by_one(parser, canonical(args))


def test_commands_that_need_the_strict_way_between_fast_ones(parser: Parser) -> None:
    """Inline commands, values with line ends and skipped counts may stand anywhere among others in one packet."""
    odd = [b"*0\r\n", b"GET x\n", b"\n", canonical([b"SET", b"k", b"a\r\n*1\r\n"]), b"*-1\r\n", b"GET y\r\n"]
    found = [[], [[b"GET", b"x"]], [], [[b"SET", b"k", b"a\r\n*1\r\n"]], [], [[b"GET", b"y"]]]
    order = [0, 1, 2, 3, 4, 5, 3, 3, 1, 1, 0, 2, 5, 4, 1, 3]

    data = b"".join(PING + odd[number] for number in order)

    assert [command for number in order for command in ([b"PING"], *found[number])] == parser.feed(data)
