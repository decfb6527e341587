"""CLIENT: the oracle's replies and errors, and what the commands do to this and to other connections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from resp.clients import turns
from resp.clients.turns import TURN_SECONDS
from tests.real.oracle import Oracle, request
from tests.resp.harness import blocked, pipeline, serving, until
from tests.resp.plays import CLIENT
from tests.resp.scripts import OracleClients, OurClients, play


@pytest.mark.parametrize("resp3", [False, True])
def test_same_bytes_as_the_oracle(oracle_server: Oracle, resp3: bool) -> None:
    """Every reply and every error text is the oracle's, and the same connections are closed."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, CLIENT, resp3=resp3)
    theirs.close()

    assert expected == play(OurClients(), CLIENT, resp3=resp3)


def fields(line: bytes) -> dict[str, str]:
    """The fields of one line of CLIENT LIST."""
    return dict(re.findall(r"([a-z-]+)=(\S*)", line.decode()))


def test_fields_of_the_line(oracle_server: Oracle) -> None:
    """CLIENT INFO has the oracle's fields in the oracle's order, but for Valkey's own, and ends with a line end."""
    connection = oracle_server.connect()
    expected = connection.call("CLIENT", "INFO")
    connection.close()

    actual = OurClients().say("a", [b"CLIENT", b"INFO"])["a"].partition(b"\r\n")[2].removesuffix(b"\r\n")

    assert [field for field in fields(expected) if field != "capa"] == list(fields(actual))
    assert expected[-1:] == actual[-1:] == b"\n"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("LIST ID abc", "ERR Invalid client ID"),
        ("LIST ID 0x1", "ERR Invalid client ID"),
        ("LIST ID", "ERR syntax error"),
        ("KILL ID str", "ERR client-id should be greater than 0"),
        ("KILL ID -1", "ERR client-id should be greater than 0"),
        ("KILL ID 0", "ERR client-id should be greater than 0"),
        ("KILL ID 10 wrong", "ERR syntax error"),
    ],
)
def test_what_is_no_id(command: str, error: str) -> None:
    """A word that is no client's id has Redis 7.4's texts, which tell CLIENT LIST from CLIENT KILL."""
    words = [b"CLIENT", *command.encode().split()]

    assert {"a": b"-%b\r\n" % error.encode()} == OurClients().say("a", words)


@pytest.mark.parametrize("resp3", [False, True])
def test_line_after_a_few_commands(oracle_server: Oracle, resp3: bool) -> None:
    """What the line says of a client that has named itself, chosen a database, subscribed and begun a transaction."""
    script = """
        a: CLIENT SETNAME me
        a: CLIENT SETINFO LIB-NAME lib
        a: CLIENT SETINFO LIB-VER 1.2
        a: SELECT 3
        a: CLIENT NO-EVICT on
        a: CLIENT NO-TOUCH on
        a: SUBSCRIBE x y
        a: PSUBSCRIBE z*
        a: SSUBSCRIBE s
        b: MULTI
        b: ECHO x
        c: CLIENT LIST NAME me
        c: CLIENT LIST FLAGS x SKIPME yes
        c: CLIENT LIST TYPE pubsub
        c: CLIENT LIST DB 3
        c: CLIENT LIST LIB-NAME lib LIB-VER 1.2
        c: CLIENT LIST NOT-TYPE normal
    """
    shown = (
        "name",
        "db",
        "sub",
        "psub",
        "ssub",
        "multi",
        "watch",
        "cmd",
        "user",
        "redir",
        "resp",
        "lib-name",
        "lib-ver",
    )
    theirs = OracleClients(oracle_server)

    steps = [play(clients, script, resp3=resp3) for clients in (theirs, OurClients())]
    theirs.close()

    expected, actual = ([fields(got["c"]) for _, got in side if b"id=" in got.get("c", b"")] for side in steps)
    # `U`: the oracle's client has come through a Unix socket.
    assert [one["flags"].replace("U", "") for one in expected] == [one["flags"] for one in actual]
    assert [[one[name] for name in shown] for one in expected] == [[one[name] for name in shown] for one in actual]
    assert len(actual) == 6


@pytest.mark.parametrize(
    "commands",
    [
        "GET",
        "SUBSCRIBE",
        "NOSUCH x",
        "CLIENT",
        "CLIENT NOSUCH",
        "client setname",
        "COMMAND x",
        "EXEC",
        "SELECT 99",
        "MULTI; GET k",
        "MULTI; GET",
        "MULTI; NOSUCH; EXEC",
        "AUTH nobody x",
        "CLIENT PAUSE 100000 WRITE; DEL none",
    ],
)
def test_the_last_command_that_came(oracle_server: Oracle, commands: str) -> None:
    """CLIENT LIST names what came last, also if it was refused, queued or waits; NULL if there is no such command."""
    script = "\n".join(["a: CLIENT SETNAME me", *(f"a: {command}" for command in commands.split("; "))])
    theirs = OracleClients(oracle_server)

    steps = [
        play(clients, f"{script}\nb: CLIENT LIST NAME me\nb: CLIENT UNPAUSE") for clients in (theirs, OurClients())
    ]
    theirs.close()

    expected, actual = (fields(side[-2][1]["b"])["cmd"] for side in steps)
    assert expected == actual


def test_the_refused_command_in_acl_log(oracle_server: Oracle) -> None:
    """`client-info` has the command that was refused, and not the one before it."""
    script = """
        a: ACL SETUSER last on >p +set ~object:1234
        a: ACL LOG RESET
        b: AUTH last p
        b: GET foo
        a: ACL LOG
        b: SET foo x
        a: ACL LOG 1
        a: ACL LOG RESET
        a: ACL DELUSER last
    """
    theirs = OracleClients(oracle_server)

    steps = [play(clients, script) for clients in (theirs, OurClients())]
    theirs.close()

    expected, actual = ([fields(side[at][1]["a"])["cmd"] for at in (4, 6)] for side in steps)
    assert expected == actual == ["get", "set"]


def test_reset_after_client_reply(oracle_server: Oracle) -> None:
    """RESET ends CLIENT REPLY OFF, and is answered; it is what SKIP leaves out; later commands are answered."""
    script = """
        a: CLIENT REPLY OFF
        a: RESET
        a: PING
        a: CLIENT REPLY SKIP
        a: RESET
        a: PING
    """
    theirs = OracleClients(oracle_server)

    expected = play(theirs, script)
    theirs.close()

    assert expected == play(OurClients(), script)


def test_line_within_an_exec(oracle_server: Oracle) -> None:
    """The client is in its transaction until all of that has run: flag, number of commands, nothing watched."""
    script = """
        a: MULTI
        a: ECHO x
        a: CLIENT INFO
        a: EXEC
        a: CLIENT INFO
    """
    theirs = OracleClients(oracle_server)

    steps = [play(clients, script) for clients in (theirs, OurClients())]
    theirs.close()

    (expected, _), (within, behind) = ([fields(got["a"]) for _, got in side[-2:]] for side in steps)
    shown = ("multi", "watch", "cmd", "events")
    assert [expected["flags"].replace("U", ""), *(expected[name] for name in shown)] == [
        within[name] for name in ("flags", *shown)
    ]
    assert ("N", "-1") == (behind["flags"], behind["multi"])  # Redis': the oracle says 0 from its first EXEC on


async def test_replies_that_leave_by_themselves_are_not_waited_for(tmp_path: Path) -> None:
    """The event `w` means that the socket has taken too little, not that there are replies: those of a pipeline."""
    async with serving(tmp_path) as live:
        got = await pipeline(await live.client(), "PING", "ECHO x", "CLIENT INFO")

    assert "r" == fields(got[-1])["events"]


async def test_memory_of_what_is_sent(tmp_path: Path) -> None:
    """`argv-mem` has the command at hand, what waits behind one that blocks, and what has come of an unfinished one."""
    async with serving(tmp_path) as live:
        waiting, partial, me = [await live.client() for _ in range(3)]
        waiting.send(["BLPOP", "list", "0"])
        await blocked(live, 1)
        await me.call("ECHO", "x")
        partial._writer.write(b"*3\r\n$3\r\nSET\r\n$4\r\nname\r\n$100\r\nvalue")
        await until(lambda: live.server.sessions[2].query_bytes > 0)
        lines = [fields(line) for line in (await me.call("CLIENT", "LIST")).splitlines()]
        waiting.send(["GET", "x"])
        await until(lambda: len(live.server.sessions[1].inbox.backlog) == 1)
        behind = fields((await me.call("CLIENT", "LIST")).splitlines()[0])

    shown = [[int(line[name]) for name in ("qbuf", "argv-mem")] for line in lines]
    assert [0, len("BLPOPlist0")] == shown[0]
    assert [len("value"), len("$3\r\nSET\r\n$4\r\nname\r\n$100\r\n")] == shown[1]
    assert [len(request(["CLIENT", "LIST"])), len("CLIENTLIST")] == shown[2]
    assert [True, False] == [int(line["qbuf-free"]) > 0 for line in lines[1:]]
    assert int(behind["argv-mem"]) > len("BLPOPlist0GETx")


def test_what_went_over_the_connection() -> None:
    """The line counts the bytes that came and went, and the commands, the one that asks included."""
    clients = OurClients()
    clients.say("a", [b"ECHO", b"x"])

    line = fields(clients.say("a", [b"CLIENT", b"INFO"])["a"])

    came, went = len(request([b"ECHO", b"x"]) + request([b"CLIENT", b"INFO"])), len(b"$1\r\nx\r\n")
    assert [str(came), str(went), "2"] == [line["tot-net-in"], line["tot-net-out"], line["tot-cmds"]]


def test_kill_others() -> None:
    """Clients that the filter fits are closed at once; an address closes the one client that has it."""
    clients = OurClients()
    for name in ("a", "b", "c"):
        clients.say(name, [b"CLIENT", b"SETNAME", name.encode()])

    assert clients.say("c", [b"CLIENT", b"KILL", b"NAME", b"a"]) == {"a": b"<closed>", "c": b":1\r\n"}
    assert clients.say("c", [b"CLIENT", b"KILL", b"127.0.0.1:50001"]) == {"b": b"<closed>", "c": b"+OK\r\n"}
    assert [b"c"] == [session.name for session in clients.server.sessions.values()]


def test_kill_me() -> None:
    """A client that kills itself gets the reply before its connection is closed."""
    clients = OurClients()

    assert clients.say("a", [b"CLIENT", b"KILL", b"SKIPME", b"no"]) == {"a": b":1\r\n<closed>"}
    assert clients.say("b", [b"CLIENT", b"KILL", b"127.0.0.1:50001"]) == {"b": b"+OK\r\n<closed>"}


@pytest.mark.parametrize("turn_seconds", [TURN_SECONDS, 0])
def test_pause_and_unpause(turn_seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """While writes are paused CLIENT is answered; what was sent meanwhile is answered in order when it goes on."""
    monkeypatch.setattr(turns, "TURN_SECONDS", turn_seconds)
    clients = OurClients()
    clients.say("b", [b"ECHO", b"x"])

    assert clients.say("a", [b"CLIENT", b"PAUSE", b"100000", b"WRITE"]) == {"a": b"+OK\r\n"}
    assert clients.say("b", [b"PUBLISH", b"x", b"1"]) == {}
    assert clients.say("b", [b"ECHO", b"2"]) == {}
    assert clients.say("a", [b"CLIENT", b"UNPAUSE"]) == {"a": b"+OK\r\n", "b": b":0\r\n$1\r\n2\r\n"}


def test_pause_of_writes() -> None:
    """CLIENT PAUSE WRITE keeps messages waiting, which Redis counts as writes, and lets everything else pass."""
    clients = OurClients()
    clients.say("a", [b"CLIENT", b"PAUSE", b"100000", b"write"])

    assert clients.say("b", [b"ECHO", b"1"]) == {"b": b"$1\r\n1\r\n"}
    assert clients.say("b", [b"PUBLISH", b"x", b"y"]) == {}
    assert clients.say("a", [b"CLIENT", b"UNPAUSE"]) == {"a": b"+OK\r\n", "b": b":0\r\n"}


def test_pauses_do_not_shorten_each_other() -> None:
    """A pause on top of another one makes it wider, never narrower."""
    clients = OurClients()
    clients.say("a", [b"CLIENT", b"PAUSE", b"100000", b"WRITE"])
    clients.say("a", [b"CLIENT", b"PAUSE", b"0", b"WRITE"])
    assert clients.say("b", [b"PUBLISH", b"x", b"1"]) == {}
    clients.say("a", [b"CLIENT", b"PAUSE", b"0", b"ALL"])

    assert clients.say("c", [b"ECHO", b"1"]) == {}
