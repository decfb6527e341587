"""The default user's password comes and goes while clients are connected: who is in, and who is out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pytest

from tests.real.oracle import Connection, ErrorReply, Oracle, SimpleString
from tests.resp.secured import NOAUTH, OK, Secured

_OPEN_AND_LOCKED: Final = {
    "requirepass": ("CONFIG SET requirepass ''", "CONFIG SET requirepass again"),
    "nopass": ("ACL SETUSER default nopass", "ACL SETUSER default resetpass"),
    "another password": ("ACL SETUSER default nopass", "ACL SETUSER default >other"),
    "off": ("ACL SETUSER default nopass", "ACL SETUSER default off"),
    "reset": ("ACL SETUSER default nopass", "ACL SETUSER default reset"),
}
_DOOR: Final = """
    in: AUTH pw
    in: CONFIG SET requirepass pw
    in: ACL SETUSER default on >pw ~* &* +@all
    in: ACL SETUSER kept on >kept ~* &* +@all
    in: AUTH kept kept
    out: GET a
    out: AUTH wrong
    out: AUTH kept wrong
    multi: PING
    resp3: PING
    ours: AUTH kept kept
    in: {open}
    out: GET a
    out: SET a 1
    out: GET a
    out: ACL WHOAMI
    out: AUTH x
    out: HELLO
    resp3: HELLO 3 AUTH default x
    resp3: GET a
    ours: ACL WHOAMI
    late: GET a
    multi: MULTI
    multi: SET a 2
    in: {locked}
    out: GET a
    out: SET a 3
    out: HELLO 3
    out: PING
    out: RESET
    out: ACL WHOAMI
    multi: SET a 4
    multi: EXEC
    resp3: RESET
    resp3: GET a
    late: AUTH default wrong
    late: ACL WHOAMI
    late: RESET
    late: GET a
    ours: ACL WHOAMI
    new: GET a
    in: {open}
    in: ACL SETUSER default on nopass
    out: GET a
    multi: EXEC
    multi: GET a
    new: GET a
    in: ACL SETUSER default off
    out: GET a
    new: GET a
    new: AUTH default x
    in: ACL SETUSER default on
    out: ACL WHOAMI
    new: ACL WHOAMI
"""
"""`ours` has logged in, `late` came while the door was open; the others came before and never log in."""


def play(connect: Callable[[], Connection], script: str) -> list[tuple[str, Any]]:
    """What each line of the script is answered; a client connects at its first one."""
    clients: dict[str, Connection] = {}
    steps = []
    with ExitStack() as stack:
        for each in ("in", "out", "multi", "resp3", "ours"):
            clients[each] = stack.enter_context(closing(connect()))
        for line in filter(None, map(str.strip, script.splitlines())):
            name, _, command = line.partition(": ")
            if name not in clients:
                clients[name] = stack.enter_context(closing(connect()))
            reply = clients[name].call(*shlex.split(command))
            steps.append((line, type(reply) if command.startswith("HELLO") and "NOAUTH" not in str(reply) else reply))
    return steps


@pytest.mark.parametrize("how", _OPEN_AND_LOCKED)
def test_the_door_opens_and_shuts_as_that_of_the_real_server(tmp_path: Path, how: str) -> None:
    """Who never logged in is in while `default` needs no password, and out again when it does; others stay in."""
    opened, locked = _OPEN_AND_LOCKED[how]
    script = _DOOR.format(open=opened, locked=locked)
    with Oracle(tmp_path, ["--requirepass", "pw"]) as oracle:
        expected = play(oracle.connect, script)
    with Secured(tmp_path, PASSWORD="pw") as server:
        assert expected == play(server.connect, script)

    assert expected[5][1] == NOAUTH


def test_the_short_way_is_shut_with_the_door(tmp_path: Path) -> None:
    """A client that has read and written by it gets NOAUTH for the same bytes, also for those in one piece."""
    commands = [["SET", "a", "1"], ["GET", "a"], ["GET", "a"]]
    with (
        Secured(tmp_path, PASSWORD="pw") as server,
        closing(server.admin()) as admin,
        closing(server.connect()) as client,
    ):
        assert client.call("PING") == NOAUTH
        admin.call("CONFIG", "SET", "requirepass", "")
        let_in = [client.pipeline(commands) for _ in range(3)]
        one_by_one = [client.call(*command) for command in commands * 3]
        admin.call("CONFIG", "SET", "requirepass", "pw")
        refused = [client.call(*command) for command in commands] + client.pipeline(commands * 5)

    assert ([[OK, b"1", b"1"]] * 3, [OK, b"1", b"1"] * 3, [NOAUTH] * 18) == (let_in, one_by_one, refused)


def test_a_long_command_and_a_long_reply_are_for_those_who_are_in(tmp_path: Path) -> None:
    """Who is let in without a login may send and get much, and who is out again may not."""
    value = b"v" * 300_000
    with (
        Secured(tmp_path, PASSWORD="pw") as server,
        closing(server.admin()) as admin,
        closing(server.connect()) as client,
    ):
        assert client.call("PING") == NOAUTH
        admin.call("CONFIG", "SET", "requirepass", "")
        assert client.call("MSET", *("k", value) * 10) == OK
        assert all(reply == value for reply in client.pipeline([["GET", "k"]] * 3))
        admin.call("CONFIG", "SET", "requirepass", "pw")
        assert client.call("GET", "k") == NOAUTH
        assert client.call("MSET", *"k" * 10) == ErrorReply(b"ERR Protocol error: unauthenticated multibulk length")


def test_the_time_to_log_in_counts_from_when_the_door_was_shut(tmp_path: Path) -> None:
    """A client that was in for longer than the limit is not cut off at once, and is after the limit."""
    with (
        Secured(tmp_path, PASSWORD="pw", HANDSHAKE_SECONDS="2") as server,
        closing(server.admin()) as admin,
        closing(server.connect()) as client,
    ):
        assert client.call("PING") == NOAUTH
        admin.call("CONFIG", "SET", "requirepass", "")
        until = monotonic() + 2.5
        while monotonic() < until:
            assert client.call("PING") == SimpleString(b"PONG")
            sleep(0.1)
        admin.call("CONFIG", "SET", "requirepass", "pw")
        sleep(0.5)
        assert client.call("PING") == NOAUTH
        assert client._socket.recv(1) == b""
