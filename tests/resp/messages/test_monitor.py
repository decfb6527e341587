"""MONITOR: the oracle's lines, without secrets, and without values for those who may not read them."""

from __future__ import annotations

import re
from pathlib import Path

from resp.messages.monitor import quoted
from tests.real.oracle import Oracle
from tests.resp.harness import serving, until
from tests.resp.plays import MONITOR
from tests.resp.scripts import OracleClients, OurClients, normal, play


def test_same_lines_as_the_oracle(oracle_server: Oracle) -> None:
    """Commands that ran are shown as they were sent; refused ones and those of administrators are not."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, MONITOR)
    theirs.close()

    assert normal(expected) == normal(play(OurClients(), MONITOR))


def test_every_byte_is_quoted_as_by_the_oracle(oracle_server: Oracle) -> None:
    """An argument of all 256 bytes is shown as the oracle shows it."""
    every = bytes(range(256))
    monitor, other = oracle_server.connect(), oracle_server.connect()
    monitor.call("MONITOR")
    other.call("ECHO", every)
    line = monitor._read().text
    monitor.close()
    other.close()

    assert line.partition(b'"ECHO" ')[2] == quoted(every)


def test_what_a_monitor_may_send(oracle_server: Oracle) -> None:
    """A monitoring client may not read, write or publish, as on the oracle."""
    script = """
        m: MONITOR
        m: GET k
        m: SET k v
        m: DBSIZE
        m: KEYS *
        m: BLPOP k 1
        m: PUBLISH x y
        m: SPUBLISH x y
    """
    theirs = OracleClients(oracle_server)

    expected = play(theirs, script)
    theirs.close()

    assert expected == play(OurClients(), script)


def test_what_client_reply_leaves_out(oracle_server: Oracle) -> None:
    """No lines come while a monitoring client wants no replies; SKIP leaves out all until its next command is done."""
    script = """
        m: MONITOR
        m: CLIENT REPLY OFF
        m: ECHO own
        a: ECHO off
        m: CLIENT REPLY SKIP
        a: ECHO off
        m: CLIENT REPLY ON
        a: ECHO on
        m: CLIENT REPLY SKIP
        a: ECHO between
        m: ECHO skipped
        a: ECHO on
        m: CLIENT REPLY OFF
        m: RESET
        a: ECHO nobody
        q: CLIENT REPLY OFF
        q: MONITOR
        a: ECHO off
    """
    theirs = OracleClients(oracle_server)

    expected = play(theirs, script)
    theirs.close()

    assert normal(expected) == normal(play(OurClients(), script))


def test_line() -> None:
    """Time in s and µs, database, the client's address, the words in quotes; a simple string in RESP2 and RESP3."""
    for hello in (b"2", b"3"):
        clients = OurClients()
        clients.say("m", [b"HELLO", hello])
        clients.say("m", [b"MONITOR"])

        line = clients.say("a", [b"ECHO", b"x"])["m"]

        assert re.fullmatch(rb'\+\d{10}\.\d{6} \[0 127\.0\.0\.1:50001\] "ECHO" "x"\r\n', line)


def test_secrets_are_hidden() -> None:
    """Passwords of HELLO and AUTH do not show, whoever looks."""
    clients = OurClients()
    clients.say("m", [b"MONITOR"])

    lines = [
        clients.say("a", command)["m"].partition(b'"')[2]
        for command in ([b"HELLO", b"3", b"AUTH", b"default", b"pw"], [b"HELLO", b"2", b"auth", b"default", b"pw"])
    ]

    assert lines == [
        b'HELLO" "3" "AUTH" "(redacted)" "(redacted)"\r\n',
        b'HELLO" "2" "auth" "(redacted)" "(redacted)"\r\n',
    ]


def test_values_are_for_those_who_may_read_them() -> None:
    """A user who may not read every key sees the names of commands alone; one who may sees all."""
    clients = OurClients()
    clients.say("a", [b"ACL", b"SETUSER", b"some", b"on", b">pw", b"+@all", b"~own:*"])
    clients.say("a", [b"ACL", b"SETUSER", b"reader", b"on", b">pw", b"+monitor", b"~*"])
    clients.say("a", [b"ACL", b"SETUSER", b"one-db", b"on", b">pw", b"+monitor", b"~*", b"db=0"])
    for user in (b"some", b"reader", b"one-db"):
        clients.say(user.decode(), [b"AUTH", user, b"pw"])
        clients.say(user.decode(), [b"MONITOR"])

    got = clients.say("a", [b"ECHO", b"secret"])
    bare = clients.say("a", [b"PING"])

    shown = {name: data.partition(b"] ")[2] for name, data in got.items() if name != "a"}
    hidden = b'"ECHO" "(hidden)"\r\n'
    assert shown == {"some": hidden, "reader": b'"ECHO" "secret"\r\n', "one-db": hidden}
    assert bare["some"].endswith(b'] "PING"\r\n')


def test_nobody_monitors() -> None:
    """`any` says whether there is a monitor; a connection that is closed, or RESET, is none."""
    clients = OurClients()
    monitors = clients.server.monitors
    for end in (b"QUIT", b"RESET"):
        clients.say(end.decode(), [b"MONITOR"])
        assert monitors.any
        clients.say(end.decode(), [end])
        assert not monitors.any
    assert clients.say("RESET", [b"PUBLISH", b"x", b"y"]) == {"RESET": b":0\r\n"}


def test_inside_a_transaction(oracle_server: Oracle) -> None:
    """MONITOR may be queued; EXEC refuses it with the oracle's text and runs the others."""
    script = """
        a: MULTI
        a: MONITOR
        a: ECHO x
        a: EXEC
        a: PING
    """
    theirs = OracleClients(oracle_server)

    expected = play(theirs, script)
    theirs.close()

    assert expected == play(OurClients(), script)


async def test_the_short_way_is_open_when_nobody_monitors(tmp_path: Path) -> None:
    """Reads take it before a client monitors, and again when the last one has gone, whichever way."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()

        def is_open() -> bool:
            return live.server.served != ()

        assert is_open()
        await first.call("MONITOR")
        await second.call("MONITOR")
        await second.call("RESET")
        assert not is_open()
        first.close()
        await until(is_open)
