"""DEBUG over the wire: off unless enabled, and then what tests need of it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from resp.observer import ServerObserver
from tests.real.oracle import Connection, ErrorReply, Oracle, SimpleString
from tests.resp import harness
from tests.resp.processes import replies, serving
from tests.wire.servers import RespServer

NOT_ALLOWED = ErrorReply(
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A slotlog with DEBUG."""
    with serving(tmp_path_factory.mktemp("debug"), SLOTLOG_REDIS__DEBUG_COMMANDS="true") as running:
        yield running


@pytest.fixture
def client(server: RespServer) -> Iterator[Connection]:
    """A connection to it, and no keys."""
    connection = server.connect()
    connection.pipeline([["FLUSHALL"], ["DEBUG", "SET-ACTIVE-EXPIRE", "1"]])
    yield connection
    connection.close()


def test_refused_unless_enabled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without the setting each subcommand has Redis' refusal, HELP included; CONFIG GET says that it is off."""
    with serving(tmp_path_factory.mktemp("no-debug")) as running:
        connection = running.connect()
        answers = connection.pipeline([["DEBUG", "DIGEST"], ["DEBUG", "HELP"], ["DEBUG", "SLEEP", "0"]])

        assert [NOT_ALLOWED] * 3 == answers
        assert [b"enable-debug-command", b"no"] == connection.call("CONFIG", "GET", "enable-debug-command")
        connection.close()


def test_refusals_are_the_oracles(client: Connection, oracle: Connection) -> None:
    """What there is no such thing as, or with the wrong number of arguments, has the oracle's text."""
    commands = ["DEBUG", "DEBUG nosuch", "DEBUG SLEEP", "DEBUG sleep 0 0", "DEBUG JMAP", "DEBUG DIGEST x"]
    commands += ["DEBUG RELOAD FOO", "DEBUG RELOAD nosave FOO", "DEBUG RELOAD FOO BAR"]

    assert replies(oracle, commands, "2") == replies(client, commands, "2")


def test_harmless_ones_answer_as_the_oracle(client: Connection, oracle: Connection) -> None:
    """SLEEP, SET-ACTIVE-EXPIRE and ERROR have the oracle's replies."""
    commands = ["DEBUG SLEEP 0", "DEBUG SLEEP x", "DEBUG SET-ACTIVE-EXPIRE 1", "DEBUG ERROR MYERR"]

    assert replies(oracle, commands, "2") == replies(client, commands, "2")


TYPES = ("string integer double bignum", "null array set map attrib push", "verbatim true false nosuch")


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_examples_of_replies_have_the_oracles_bytes(server: RespServer, oracle_server: Oracle, protocol: str) -> None:
    """DEBUG PROTOCOL, in both protocols."""
    received = []
    for family, address in ((socket.AF_INET, server.address), (socket.AF_UNIX, oracle_server.path)):
        with socket.socket(family) as connection:
            connection.settimeout(10)
            connection.connect(address)
            received.append(bytes_of_examples(connection, protocol))

    assert received[0] == received[1]
    assert (b"|1\r\n" in received[0]) == (protocol == "3")


def bytes_of_examples(connection: socket.socket, protocol: str) -> bytes:
    """What a server sends as examples of replies."""
    commands = [f"DEBUG PROTOCOL {kind}" for kinds in TYPES for kind in kinds.split()]
    connection.sendall(f"HELLO {protocol}\r\nECHO begin\r\n".encode())
    received = b""
    while not received.endswith(b"$5\r\nbegin\r\n"):
        received += connection.recv(4096)
    connection.sendall("\r\n".join([*commands, "ECHO end", ""]).encode())
    received = b""
    while not received.endswith(b"$3\r\nend\r\n"):
        received += connection.recv(4096)
    return received


def test_object_tells_what_is_known_of_a_value(client: Connection, oracle: Connection) -> None:
    """The form is the oracle's; an address and times there are none."""
    commands = ["SELECT 3", "SET a xyz", "DEBUG OBJECT a", "DEBUG OBJECT nosuch", "DEBUG OBJECT", "SELECT 0"]
    memory = re.compile(rb"(?<=at:0x)[0-9a-f]+|(?<=lru:)[0-9]+")
    expected, got = (
        [memory.sub(b"0", reply.text) for _, reply in replies(each, commands, "2")] for each in (oracle, client)
    )

    assert expected == got


def test_sleep_holds_up_its_connection_alone(server: RespServer, client: Connection) -> None:
    """While one connection sleeps for an hour, another is answered; the sleeper's next command waits."""
    sleeper = server.connect()
    sleeper._socket.sendall(b"DEBUG SLEEP 3600\r\nSET done 1\r\n")
    until = time.monotonic() + 30
    while b"cmd=debug" not in client.call("CLIENT", "LIST") and time.monotonic() < until:
        time.sleep(0.01)

    assert (SimpleString(b"PONG"), None) == (client.call("PING"), client.call("GET", "done"))
    assert b"cmd=debug" in client.call("CLIENT", "LIST")
    sleeper.close()


def test_digest_is_that_of_the_contents(client: Connection) -> None:
    """The digest is the same for the same contents, however they came about, and another for others."""
    empty = client.call("DEBUG", "DIGEST")
    client.pipeline([["RPUSH", "l", "a", "b"], ["SET", "s", "1"]])
    first = client.call("DEBUG", "DIGEST")
    client.pipeline([["FLUSHALL"], ["SET", "s", "0"], ["INCR", "s"], ["RPUSH", "l", "b"], ["LPUSH", "l", "a"]])

    assert re.fullmatch(rb"[0-9a-f]{64}", first.text)
    assert (first, True) == (client.call("DEBUG", "DIGEST"), first != empty)


async def test_expiry_of_idle_partitions_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without active expiry no TICK moves an idle partition's clock when a key is due; with it one does."""
    asked = 0
    may_expire: property = vars(ServerObserver)["may_expire"]

    def asking(observer: ServerObserver) -> bool:
        nonlocal asked
        asked += 1
        return bool(may_expire.__get__(observer))

    monkeypatch.setattr("ingest.applying.ticker._TICK_SECONDS", 0.002)
    monkeypatch.setattr(ServerObserver, "may_expire", property(asking))
    async with harness.serving(tmp_path, settings={"debug_commands": True}) as live:
        client = await live.client()
        await harness.pipeline(client, "DEBUG SET-ACTIVE-EXPIRE 0", "SET a 1 PX 1")
        enough = asked + 100
        await harness.until(lambda: asked > enough)
        before = await live.events()
        await harness.pipeline(client, "DEBUG SET-ACTIVE-EXPIRE 1")
        await harness.until(lambda: live.consumer.partitions[0].worker.machine.next_offset > 1)

        assert [b"SET"] == [name for name, _ in before]
        assert [b"SET", b"TICK"] == [name for name, _ in await live.events()][:2]


def test_help_lists_the_subcommands(client: Connection) -> None:
    """HELP begins and ends as that of a container."""
    lines = client.call("DEBUG", "HELP")

    assert SimpleString(b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:") == lines[0]
    assert [SimpleString(b"HELP"), SimpleString(b"    Print this help.")] == lines[-2:]


def test_reload_replays_and_compares(client: Connection) -> None:
    """RELOAD replays the log into another directory, finds the two states equal, and leaves the state as it was."""
    client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")  # the key that is due would go between two digests
    client.pipeline([["RPUSH", "l", "a", "b"], ["SET", "s", "1", "PX", "1"], ["ZADD", "z", "1", "m"], ["SPOP", "s"]])
    before = client.call("DEBUG", "DIGEST")

    assert SimpleString(b"OK") == client.call("DEBUG", "RELOAD")
    assert (before, [b"a", b"b"]) == (client.call("DEBUG", "DIGEST"), client.call("LRANGE", "l", "0", "-1"))


async def test_reload_waits_for_writes_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELOAD compares when what was sent to the log before it is applied: else the log would be ahead of the state."""
    async with harness.serving(tmp_path, settings={"debug_commands": True}) as live:
        writer, reloader = await live.client(), await live.client()
        live.log.at_once = False
        live.log.end_gate.clear()
        stood: list[tuple[int, int]] = []

        async def compare() -> str:
            stood.append((live.server.pipelines[0].machine.next_offset, await live.log.end_offset(0)))
            return ""

        monkeypatch.setattr(live.server.host, "reload_and_compare", compare)
        writer.send(["SET", "a", "1"])
        await harness.until(lambda: live.log.entries == 1)
        reloader.send(["DEBUG", "RELOAD"])
        await harness.until(lambda: live.server.pause.is_on or bool(stood))
        early = list(stood)
        live.log.end_gate.set()
        answers = [await harness.replies(client, 1) for client in (writer, reloader)]

        assert ([], [(1, 1)]) == (early, stood)
        assert [[SimpleString(b"OK")]] * 2 == answers
