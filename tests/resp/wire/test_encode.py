"""Replies on the wire, written out by hand, and as valkey-server 9.1 sends them for real commands."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from engine.errors import WRONG_TYPE, CommandError
from engine.values.replies import NIL_ARRAY, OK, BigNumber, Digits, Map, Pairs, Reply, Set, Status, Verbatim
from resp.wire.encode import encode2, encode3
from resp.wire.server_replies import NO_REPLY, Attributed, Push
from tests.real.oracle import Oracle

NAN = float("nan")
POPULARITY = Map([(b"key-popularity", [b"key:123", 90])])
INF = float("inf")

BOTH: list[tuple[Reply, bytes]] = [
    (b"", b"$0\r\n\r\n"),
    (b"a\r\n\0\xff", b"$5\r\na\r\n\0\xff\r\n"),
    (b"x" * 2000, b"$2000\r\n" + b"x" * 2000 + b"\r\n"),
    (OK, b"+OK\r\n"),
    (Status(b"OK"), b"+OK\r\n"),
    (Status(b"PONG"), b"+PONG\r\n"),
    (Status(b"other text"), b"+other text\r\n"),
    (Status(b"two\r\n+lines\n"), b"+two  +lines\r\n"),
    (0, b":0\r\n"),
    (-2, b":-2\r\n"),
    (255, b":255\r\n"),
    (256, b":256\r\n"),
    (-(1 << 63), b":-9223372036854775808\r\n"),
    ((1 << 64) - 1, b":18446744073709551615\r\n"),
    ([], b"*0\r\n"),
    ([b"a", b""], b"*2\r\n$1\r\na\r\n$0\r\n\r\n"),
    ([b"a", 1, [OK, []]], b"*3\r\n$1\r\na\r\n:1\r\n*2\r\n+OK\r\n*0\r\n"),
    ([b"x" * 2000], b"*1\r\n$2000\r\n" + b"x" * 2000 + b"\r\n"),
    (CommandError(WRONG_TYPE), b"-" + WRONG_TYPE.encode() + b"\r\n"),
    (CommandError("ERR no '\udcff\u20ac'"), b"-ERR no '\xff\xe2\x82\xac'\r\n"),
    (CommandError("ERR a\r\nb\nc\r\n"), b"-ERR a  b c\r\n"),
    ([CommandError("ERR a"), b"b"], b"*2\r\n-ERR a\r\n$1\r\nb\r\n"),
    (NO_REPLY, b""),
]
"""What looks the same in RESP2 and RESP3."""

DIFFERENT: list[tuple[Reply, bytes, bytes]] = [
    (None, b"$-1\r\n", b"_\r\n"),
    (NIL_ARRAY, b"*-1\r\n", b"_\r\n"),
    ([b"a", None], b"*2\r\n$1\r\na\r\n$-1\r\n", b"*2\r\n$1\r\na\r\n_\r\n"),
    (3.0, b"$1\r\n3\r\n", b",3\r\n"),
    (3.5, b"$3\r\n3.5\r\n", b",3.5\r\n"),
    (Digits(b"13.36138933897018433"), b"$20\r\n13.36138933897018433\r\n", b",13.36138933897018433\r\n"),
    (-0.0, b"$2\r\n-0\r\n", b",-0\r\n"),
    (1e22, b"$5\r\n1e+22\r\n", b",1e+22\r\n"),
    (INF, b"$3\r\ninf\r\n", b",inf\r\n"),
    (-INF, b"$4\r\n-inf\r\n", b",-inf\r\n"),
    (NAN, b"$3\r\nnan\r\n", b",nan\r\n"),
    (Map(), b"*0\r\n", b"%0\r\n"),
    (Map([(b"k", b"v")]), b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n", b"%1\r\n$1\r\nk\r\n$1\r\nv\r\n"),
    (Map([(b"k", [None])]), b"*2\r\n$1\r\nk\r\n*1\r\n$-1\r\n", b"%1\r\n$1\r\nk\r\n*1\r\n_\r\n"),
    (Set(), b"*0\r\n", b"~0\r\n"),
    (Set([b"a", b"b"]), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"~2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    (Pairs(), b"*0\r\n", b"*0\r\n"),
    (Pairs([(b"m", 1.5)]), b"*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n", b"*1\r\n*2\r\n$1\r\nm\r\n,1.5\r\n"),
    (Verbatim(b"a\r\nb"), b"$4\r\na\r\nb\r\n", b"=8\r\ntxt:a\r\nb\r\n"),
    (Verbatim(b"a", b"m"), b"$1\r\na\r\n", b"=5\r\nm  :a\r\n"),
    (BigNumber(b"123"), b"$3\r\n123\r\n", b"(123\r\n"),
    (True, b":1\r\n", b"#t\r\n"),
    (False, b":0\r\n", b"#f\r\n"),
    (
        Push([b"message", b"c", 1]),
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n",
    ),
]

SETUP = [b"FLUSHALL", b"HSET h f v", b"SADD s m", b"ZADD z 1 a 2.5 b inf c", b"SET k v", b"RPUSH l x y"]
ASKED: list[tuple[bytes, Reply]] = [
    (b"SET k v", OK),
    (b"GET k", b"v"),
    (b"GET none", None),
    (b"STRLEN k", 1),
    (b"TYPE z", Status(b"zset")),
    (b"MGET k none", [b"v", None]),
    (b"LRANGE l 0 -1", [b"x", b"y"]),
    (b"LPOP none 2", NIL_ARRAY),
    (b"KEYS none", []),
    (b"HGETALL h", Map([(b"f", b"v")])),
    (b"HGETALL none", Map()),
    (b"SMEMBERS s", Set([b"m"])),
    (b"SMEMBERS none", Set()),
    (b"ZSCORE z a", 1.0),
    (b"ZSCORE z b", 2.5),
    (b"ZSCORE z c", INF),
    (b"ZSCORE z none", None),
    (b"ZMSCORE z b none", [2.5, None]),
    (b"ZRANGE z 0 -1", [b"a", b"b", b"c"]),
    (b"ZRANGE z 0 -1 WITHSCORES", Pairs([(b"a", 1.0), (b"b", 2.5), (b"c", INF)])),
    (b"ZRANGE none 0 -1 WITHSCORES", Pairs()),
    (b"LOLWUT VERSION x", CommandError("ERR value is not an integer or out of range")),
    (b"INCR l", CommandError(WRONG_TYPE)),
    (b'OBJECT "a\\r\\nb\\xff" k', CommandError("ERR unknown subcommand 'a\r\nb\udcff'. Try OBJECT HELP.")),
    (b"DEBUG PROTOCOL double", 3.141),
    (b"DEBUG PROTOCOL true", True),
    (b"DEBUG PROTOCOL false", False),
    (b"DEBUG PROTOCOL null", None),
    (b"DEBUG PROTOCOL set", Set([0, 1, 2])),
    (b"DEBUG PROTOCOL map", Map([(0, False), (1, True), (2, False)])),
    (b"DEBUG PROTOCOL verbatim", Verbatim(b"This is a verbatim\nstring")),
    (b"DEBUG PROTOCOL attrib", Attributed(POPULARITY, b"Some real reply following the attribute")),
    (b"SUBSCRIBE c", Push([b"subscribe", b"c", 1])),
]
"""Inline commands and their replies."""


class Wire:
    """A connection to the oracle that gives what it sends as it is."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(path)

    def ask(self, *lines: bytes) -> bytes:
        """The bytes that these inline commands are answered with."""
        self._socket.sendall(b"".join(line + b"\r\n" for line in lines) + b"PING the-end\r\n")
        received = b""
        while not (end := re.search(rb"(\$7\r\n|\*2\r\n\$4\r\npong\r\n\$7\r\n)the-end\r\n\Z", received)):
            chunk = self._socket.recv(65536)
            assert chunk, received
            received += chunk
        return received[: end.start()]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


@pytest.fixture
def wire(oracle_server: Oracle) -> Iterator[Wire]:
    """A connection, RESP2."""
    wire = Wire(oracle_server.path)
    yield wire
    wire.close()


@pytest.mark.parametrize(("reply", "expected"), BOTH)
def test_both(reply: Reply, expected: bytes) -> None:
    """Strings, integers, arrays and errors are the same in both protocols."""
    assert (expected, expected) == (encode2(reply), encode3(reply))


@pytest.mark.parametrize(("reply", "expected2", "expected3"), DIFFERENT)
def test_different(reply: Reply, expected2: bytes, expected3: bytes) -> None:
    """Each other kind has its own form in RESP3 and a plainer one in RESP2, wherever it stands."""
    assert (expected2, expected3) == (encode2(reply), encode3(reply))
    assert (b"*1\r\n" + expected2, b"*1\r\n" + expected3) == (encode2([reply]), encode3([reply]))


def test_unknown_kinds() -> None:
    """A value of a type that is no reply is a bug, and does not reach the client as something else."""
    for encode in encode2, encode3:
        with pytest.raises(KeyError):
            encode("text")
        with pytest.raises(KeyError):
            encode([b"a", (1, 2)])


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(("command", "reply"), ASKED)
def test_as_the_oracle(wire: Wire, protocol: int, command: bytes, reply: Reply) -> None:
    """The oracle sends the same bytes for a command that has this reply."""
    wire.ask(*SETUP, b"HELLO %d" % protocol)

    assert (encode2, encode3)[protocol - 2](reply) == wire.ask(command)


@pytest.mark.parametrize("protocol", [2, 3])
def test_exec_as_the_oracle(wire: Wire, protocol: int) -> None:
    """A transaction's replies, an error among them, are an array in the bytes of the oracle."""
    queue = [b"HGETALL h", b"INCR l", b"ZSCORE z b", b"GET none", b"SMEMBERS s", b"ZRANGE z 0 0 WITHSCORES"]
    results = [Map([(b"f", b"v")]), CommandError(WRONG_TYPE), 2.5, None, Set([b"m"]), Pairs([(b"a", 1.0)])]
    encode = (encode2, encode3)[protocol - 2]
    wire.ask(*SETUP, b"HELLO %d" % protocol)

    expected = b"".join(map(encode, [OK, *[Status(b"QUEUED")] * len(queue), results]))

    assert expected == wire.ask(b"MULTI", *queue, b"EXEC")


@pytest.mark.parametrize("protocol", [2, 3])
def test_info_as_the_oracle(wire: Wire, protocol: int) -> None:
    """INFO is a verbatim string, with its length and mark."""
    wire.ask(b"HELLO %d" % protocol)
    received = wire.ask(b"INFO keyspace")
    text = received[received.index(b"# Keyspace") : -2]

    assert (encode2, encode3)[protocol - 2](Verbatim(text)) == received


def test_small_integers() -> None:
    """Integers around the ends of the prepared ones come out as themselves."""
    numbers = [encode2(number) for number in range(-5, 300)]

    assert [b":%d\r\n" % number for number in range(-5, 300)] == numbers
