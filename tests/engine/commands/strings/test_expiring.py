"""MSETEX beside the oracle: replies, refusals and their order, and what is there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from engine.errors import CommandError
from tests.differential.wire import RESP2, wire
from tests.engine.harness import new_store, open_machine, send
from tests.real.oracle import Connection, ErrorReply, Oracle

FILL = ("SET a old PXAT 4102444800000", "RPUSH l x")
LOOKS = ("MGET a b m", "PEXPIRETIME a", "PEXPIRETIME b", "TYPE l", "EXISTS a b m")

LINES = (
    *("2 a 1 b 2", "1 a 1 NX", "1 b 1 NX", "1 a 1 XX", "2 a 1 b 2 XX", "2 a 1 b 2 NX", "2 m 1 m 2 NX", "2 m 1 m 2"),
    *(
        "1 a 1 KEEPTTL",
        "2 a 1 b 1 KEEPTTL XX",
        "1 l 1",
        "1 l 1 NX",
        "1 a 1 nx\0-",
        "1 a 1 NX NX",
        "1 a 1 PXAT 4200000000123",
    ),
    *(
        "2 a 1 b 2 EXAT 4102444801",
        "2 a 1 b 2 EXAT 1",
        "2 m 1 m 2 PXAT 1",
        "1 a 1 XX EXAT 4102444801",
        "1 a 1 EXAT 1 NX",
    ),
    *("x a 1", "0 a 1", "-1 a 1", "1.0 a 1", "2147483648 a 1", "9223372036854775808 a 1", "2147483647 a 1"),
    *("2 a 1", "2 a 1 b", "1 a 1 b", "1 a 1 b 2", "x a 1 FOO", "5 a 1 FOO 1", "1 a", "1", "3 a 1 b 2 EX 1"),
    *(
        "1 a 1 NX XX",
        "1 a 1 XX NX",
        "1 a 1 EX",
        "1 a 1 EX x",
        "1 a 1 EX 0",
        "1 a 1 PX -1",
        "1 a 1 EX 9223372036854775807",
    ),
    *("1 a 1 EX 10 KEEPTTL", "1 a 1 EX 10 PX 10", "1 a 1 GET", "1 a 1 IFEQ old", "1 a 1 PERSIST", "1 a 1 FOO EX 0"),
)


@pytest.fixture
def oracle(oracle_server: Oracle) -> Iterator[Connection]:
    """A connection to the oracle."""
    with closing(oracle_server.connect()) as connection:
        yield connection


@pytest.mark.parametrize("line", LINES, ids=repr)
def test_replies_and_contents_are_the_oracles(line: str, oracle: Connection) -> None:
    """Whatever the count, the condition and the time: the same reply, the same values and times of death."""
    commands = [*FILL, f"MSETEX {line}", *LOOKS]

    oracle.call("FLUSHALL")
    expected = oracle.pipeline([command.split(" ") for command in commands])
    outcomes = send(open_machine(new_store()), *commands)
    # A wrong number of arguments is a dead letter, whose reason is Redis' text.
    texts = [reply.text.decode() for reply in expected if isinstance(reply, ErrorReply)]

    assert [reply for reply in expected if not isinstance(reply, ErrorReply)] == [
        wire(outcome, RESP2) for outcome in outcomes if not isinstance(outcome, CommandError | str)
    ]
    assert texts == [str(outcome) for outcome in outcomes if isinstance(outcome, CommandError | str)]
