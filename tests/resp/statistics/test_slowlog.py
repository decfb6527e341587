"""SLOWLOG: the oracle's entries, shortened and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from resp.statistics.slowlog import shortened
from tests.real.oracle import Oracle, request
from tests.resp.harness import serving
from tests.resp.plays_of_looks import SLOWLOG
from tests.resp.scripts import OracleClient, OurClients, normal, play
from tests.wire.frames import RawConnection


@pytest.mark.parametrize("resp3", [False, True])
def test_same_entries_as_the_oracle(oracle_server: Oracle, resp3: bool) -> None:
    """What is noted, how it is shortened and redacted, and every error text is the oracle's."""
    theirs = OracleClient(oracle_server)
    theirs.say("a", [b"SLOWLOG", b"RESET"])

    expected = play(theirs, SLOWLOG, resp3=resp3)
    theirs.close()

    assert normal(expected) == normal(play(OurClients(), SLOWLOG, resp3=resp3))


def test_what_answers_nothing_is_noted(oracle_server: Oracle) -> None:
    """What CLIENT REPLY leaves out stands there as on the oracle, as do CLIENT REPLY itself and a second MONITOR."""
    lines = ["CLIENT SETNAME quiet", "CLIENT REPLY SKIP", "ECHO skipped", "CLIENT REPLY OFF", "ECHO off"]
    commands = [line.encode().split() for line in [*lines, "CLIENT REPLY ON", "MONITOR", "MONITOR"]]
    ours, theirs, quiet = OurClients(), oracle_server.connect(), RawConnection(oracle_server.path)
    for parameter in ([b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"], [b"SLOWLOG", b"RESET"]):
        ours.say("a", parameter)
        theirs.call(*parameter)

    quiet.ask(b"".join(map(request, commands)), 3)
    for command in commands:
        ours.say("b", command)
    noted = [entry[3] for entry in theirs.call("SLOWLOG", "GET", "-1") if entry[5] == b"quiet"]
    theirs.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    quiet.close()
    theirs.close()

    assert noted == [entry.command for entry in ours.server.slowlog.newest(99) if entry.client_name == b"quiet"]


def test_numbers_go_on() -> None:
    """Entries are numbered from 0; a number is never used again, not even after a reset."""
    clients = OurClients()
    clients.say("a", [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"])
    clients.say("a", [b"ECHO", b"x"])
    clients.say("a", [b"SLOWLOG", b"RESET"])
    clients.say("a", [b"ECHO", b"x"])

    assert [3, 2] == [entry.number for entry in clients.server.slowlog.newest(10)]


@pytest.mark.parametrize(
    "command", [["wAtCh", "k"], ["slotlog", "oNcE", "id", "iNcR", "n"]], ids=["a watch", "what is run once"]
)
async def test_events_of_the_server_keep_their_spelling(tmp_path: Path, command: list[str]) -> None:
    """WATCH and what SLOTLOG ONCE runs are noted as the client has spelled them."""
    async with serving(tmp_path, slowlog_log_slower_than="0") as live:
        await live.ask(*command)
        shown = [[word.decode() for word in entry[3]] for entry in await live.ask("SLOWLOG", "GET", "-1")]

        assert [command[3:] or command] == [words for words in shown if words[0].upper() in {"WATCH", "INCR"}]


def test_threshold() -> None:
    """What is not slower than `slowlog-log-slower-than` is not noted."""
    clients = OurClients()
    clients.say("a", [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"100000000"])
    clients.say("a", [b"ECHO", b"x"])

    assert len(clients.server.slowlog) == 0


def test_values_are_for_those_who_may_read_them() -> None:
    """A user who may not read every key sees the names of the slow commands alone."""
    clients = OurClients()
    clients.say("a", [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"])
    clients.say("a", [b"ACL", b"SETUSER", b"bob", b"on", b">pw", b"+@all", b"~own:*"])
    clients.say("a", [b"SLOWLOG", b"RESET"])
    clients.say("a", [b"ECHO", b"secret"])
    clients.say("b", [b"AUTH", b"bob", b"pw"])

    got = clients.say("b", [b"SLOWLOG", b"GET"])["b"]

    assert b"$4\r\nECHO\r\n$8\r\n(hidden)\r\n" in got
    assert b"secret" not in got


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ([b"x" * 128], [b"x" * 128]),
        ([b"x" * 129], [b"x" * 128 + b"... (1 more bytes)"]),
        ([b"x"] * 32, [b"x"] * 32),
        ([b"x"] * 33, [b"x"] * 31 + [b"... (2 more arguments)"]),
        ([b"EXEC", [b"SET", b"a", b"1"], [b"GET", b"a"]], [b"EXEC", b"SET a 1", b"GET a"]),
    ],
)
def test_shortened(command: list[bytes], shown: list[bytes]) -> None:
    """At the limit nothing is cut, one past it is; a command inside EXEC is one word."""
    assert shown == shortened(command)
