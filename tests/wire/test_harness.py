"""The comparison over the wire: it sees differences, and excuses none but those that are documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.oracle import Oracle
from tests.real.oracle import request as encoded
from tests.wire.campaign import Servers, first_difference_of_commands, first_difference_of_sessions
from tests.wire.duel import new_tally
from tests.wire.exceptions import EXCEPTIONS, Reply, Request, as_table, excused
from tests.wire.liar import Lie, liar
from tests.wire.sessions import Talk, Turn, comparable

ROOT = Path(__file__).parents[2]


def test_the_oracle_equals_itself(restored_oracle: Oracle, second_oracle: Oracle) -> None:
    """Two oracles differ in nothing: no reply here depends on anything but what was sent, and in which order."""
    servers = Servers(second_oracle.path, restored_oracle.path)

    assert "" == first_difference_of_sessions(servers, new_tally(), 500, derandomize=True)
    assert "" == first_difference_of_commands("generic", servers, new_tally(), 1000, derandomize=True)


@pytest.mark.parametrize(
    ("group", "lie"),
    [
        ("string", Lie(b"+OK\r\n", b"$2\r\nOK\r\n")),
        ("list", Lie(b"-WRONGTYPE ", b"-ERR ")),
        ("hash", Lie(b"_\r\n", b"$-1\r\n")),
        ("list", Lie(b"*4\r\n$5\r\nRPUSH\r\n", b"*4\r\n$5\r\nLPUSH\r\n", asked=True)),
        ("sorted-set", Lie(b",1\r\n", b",1.0\r\n")),
        ("set", Lie(b"~", b"*")),
        ("server", Lie(b"-EXECABORT ", b"-ERR ")),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value.said),
)
def test_lies_about_commands_are_found(
    group: str, lie: Lie, restored_oracle: Oracle, second_oracle: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another kind of string, another error code, RESP2 in RESP3, another order: one difference is enough."""
    with liar(str(Path(second_oracle.path).parent), second_oracle.path, lie) as path:
        servers = Servers(path, restored_oracle.path)
        difference = first_difference_of_commands(group, servers, new_tally(), 3000, derandomize=True)

    assert "slotlog: " in difference
    assert difference.count("Step(") <= 5


@pytest.mark.parametrize(
    "lie",
    [
        Lie(b"+QUEUED\r\n", b"+OK\r\n"),
        Lie(b"-EXECABORT ", b"-ERR "),
        Lie(b"with args beginning with", b"with arguments beginning with"),
        Lie(b"unbalanced quotes", b"unbalanced quote"),
        Lie(b"WATCH\r\n", b"TOUCH\r\n", asked=True),
        Lie(b"$5\r\nproto\r\n:3\r\n", b"$5\r\nproto\r\n:2\r\n"),
        Lie(b"+RESET\r\n", b"+OK\r\n"),
    ],
    ids=lambda lie: repr(lie.said),
)
def test_lies_about_sessions_are_found(lie: Lie, restored_oracle: Oracle, second_oracle: Oracle) -> None:
    """What a transaction, a greeting, an unknown command or a broken one is answered: one difference is enough."""
    with liar(str(Path(second_oracle.path).parent), second_oracle.path, lie) as path:
        servers = Servers(path, restored_oracle.path)
        difference = first_difference_of_sessions(servers, new_tally(), 3000, derandomize=True)

    assert "slotlog: " in difference
    assert difference.count("Turn(") <= 4


ZRANGE: Request = (b"ZRANGE", b"z", b"[a", b"+", b"BYLEX")
HELLO = b"*6\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:7\r\n"


@pytest.mark.parametrize(
    ("name", "request_", "oracle", "slotlog"),
    [
        ("unordered", (b"SMEMBERS", b"e"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("", (b"SMEMBERS", b"e"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\na\r\n$1\r\nc\r\n"),
        ("", (b"SMEMBERS", b"e"), b"~1\r\n$1\r\na\r\n", b"*1\r\n$1\r\na\r\n"),
        ("", (b"LRANGE", b"l"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("", (b"HGETALL", b"h"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\nb\r\n$1\r\na\r\n"),
        ("", (b"SCAN", b"0"), b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n"),
        ("cursors", (b"SCAN", b"7"), b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("two clocks", (b"TTL", b"s"), b":100\r\n", b":101\r\n"),
        ("", (b"TTL", b"s"), b":100\r\n", b":201\r\n"),
        ("two clocks", (b"HTTL", b"h"), b"*2\r\n:-1\r\n:100\r\n", b"*2\r\n:-1\r\n:99\r\n"),
        ("", (b"HTTL", b"h"), b"*2\r\n:-1\r\n:100\r\n", b"*2\r\n:-2\r\n:100\r\n"),
        ("", (b"HTTL", b"h"), b"*1\r\n:100\r\n", b"*2\r\n:100\r\n:100\r\n"),
        ("", (b"TTL", b"s"), b":1\r\n", b":-1\r\n"),
        ("", (b"PEXPIRETIME", b"s"), b":4102444800001\r\n", b":4102444800000\r\n"),
        ("memory", (b"OBJECT", b"ENCODING", b"s"), b"$3\r\nraw\r\n", b"$6\r\nembstr\r\n"),
        ("", (b"OBJECT", b"ENCODING", b"s"), b"$9\r\nhashtable\r\n", b"$6\r\nembstr\r\n"),
        ("", (b"ZRANGE", b"z"), b"*1\r\n$2\r\n-0\r\n", b"*1\r\n$1\r\n1\r\n"),
        ("minus zero", (b"ZRANGE", b"z"), b"*1\r\n$2\r\n-0\r\n", b"*1\r\n$1\r\n0\r\n"),
        ("", (b"GET", b"z"), b"$2\r\n-0\r\n", b"$1\r\n0\r\n"),
        ("open ranges", ZRANGE, b"*0\r\n", b"*1\r\n$1\r\na\r\n"),
        ("", ZRANGE, b"-ERR x\r\n", b"*1\r\n$1\r\na\r\n"),
        ("greeting", (b"HELLO",), HELLO, HELLO.replace(b":7", b":8").replace(b"valkey", b"redis!")),
        ("", (b"HELLO",), HELLO, HELLO.replace(b":2", b":3")),
    ],
)
def test_exceptions_cover_no_more_than_they_say(name: str, request_: Request, oracle: bytes, slotlog: bytes) -> None:
    """Each covers its own kind of difference, and not the next one to it."""
    assert name == excused(Reply(request_, oracle, slotlog, in_listpacks=False))


def test_large_sorted_sets_alone_are_excused() -> None:
    """What the oracle answers otherwise for a large sorted set has to be the same for a small one."""
    assert "" == excused(Reply(ZRANGE, b"*0\r\n", b"*1\r\n$1\r\na\r\n", in_listpacks=True))
    assert "" == excused(Reply(ZRANGE[:2], b"*1\r\n$2\r\n-0\r\n", b"*1\r\n$1\r\n0\r\n", in_listpacks=True))


def test_sessions_keep_to_what_can_be_compared() -> None:
    """A part of a session may lack the turn that ended its MULTI: not used where both sides are known to differ."""
    multi, ends, watch, count = (Talk(encoded([word])) for word in ("MULTI", "EXEC", "WATCH", "DBSIZE"))
    session = [Turn(0, (multi, ends)), Turn(1, (multi,)), Turn(0, (watch, count))]

    assert session == comparable(session)
    assert [Turn(0, (multi,)), Turn(1, (count,))] == comparable(
        [Turn(0, (multi, count)), Turn(0, (watch, count)), Turn(1, (count,))]
    )


def test_exceptions_are_documented() -> None:
    """docs/differences.md has the table of all exceptions, word for word: each has a name of its own."""
    assert as_table() in (ROOT / "docs" / "differences.md").read_text()
    assert len(EXCEPTIONS) == len({exception.name for exception in EXCEPTIONS})
