"""A long command in a real process: others go on beside it, and what ends the process meanwhile loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, Final
from urllib.request import urlopen

import pytest

from tests.faults.service import ServiceProcess
from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.real.process import ServerError

OK: Final = SimpleString(b"OK")
MEMBERS: Final = 20_000
KEYS: Final = 50_000
_AT_ONCE: Final = 5_000
_FEW: Final = 5
_LONG_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 12.0
"""Longer than a service that stops waits for a write: 4 s for its reply, then 3 s for the batch."""

_KILLS: Final = 4
_KILLS_MAX: Final = 16


class Service:
    """`slotlog serve` with two sets and a command over them that is as long as a test wants it."""

    def __init__(self, directory: Path) -> None:
        self.options: Final = ["--data", str(directory / "data"), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
        self.process: ServiceProcess
        self._addresses: dict[str, int] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """While it runs; when it has ended already, that is all right."""
        with ServiceProcess(self.options, {"SLOTLOG_REDIS__DEBUG_COMMANDS": "1"}) as self.process:
            self._addresses = {name: int(self.process.wait_for(name)["port"]) for name in ("http", "resp")}
            self.process.wait_for("started")
            yield

    def connect(self) -> Connection:
        """A new connection of a Redis client."""
        return Connection(("127.0.0.1", self._addresses["resp"]))

    def get(self, path: str) -> int:
        """The status of an answer of the HTTP server."""
        with urlopen(f"http://127.0.0.1:{self._addresses['http']}{path}", timeout=60) as response:
            response.read()
            return int(response.status)

    def fill(self) -> None:
        """Make the sets."""
        with closing(self.connect()) as connection:
            for start in range(0, MEMBERS, _AT_ONCE):
                members = range(start, start + _AT_ONCE)
                connection.call("SADD", "a", *members)
                connection.call("SADD", "b", *(member + MEMBERS // 2 for member in members))

    def long(self, *command: str, seconds: float = _LONG_SECONDS) -> list[str]:
        """A command over both sets, each named so often that it takes about so long on this machine now."""
        with closing(self.connect()) as connection:
            began = perf_counter()
            reply = connection.call(*command, *["a", "b"] * _FEW)
            took = perf_counter() - began
            assert reply == MEMBERS * 3 // 2 or len(reply) == MEMBERS * 3 // 2
        return [*command, *["a", "b"] * max(_FEW, int(_FEW * seconds / took))]


class Asked:
    """A command on a connection of its own, whose reply comes when it comes.

    Attributes:
        reply: None as long as there is none.
        is_lost: the connection was closed without one.
    """

    def __init__(self, service: Service, *command: str) -> None:
        self.reply: Any = None
        self.is_lost = False
        self._connection = service.connect()
        self._connection.send(*command)
        self._thread = Thread(target=self._wait)
        self._thread.start()

    def end(self) -> None:
        """Wait until it is known."""
        self._thread.join()
        self._connection.close()

    def _wait(self) -> None:
        try:
            self.reply = self._connection.reply()
        except (OSError, ServerError):
            self.is_lost = True


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """Not yet started."""
    return Service(tmp_path)


def until_it_runs(connection: Connection, name: str) -> None:
    """Wait until a client's command has begun."""
    while b"cmd=%b " % name.encode() not in connection.call("CLIENT", "LIST"):
        pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", [["SUNION"], ["SUNIONSTORE", "d"]], ids=lambda command: command[0])
def test_others_are_served(service: Service, command: list[str]) -> None:
    """PING, `/livez`, `/readyz` and `/metrics` are answered while a long read, or a long write, is not."""
    with service.running(), closing(service.connect()) as other:
        service.fill()
        unanswered = False
        for times in range(1, 5):  # longer, should the machine have become quicker since the command was measured
            asked = Asked(service, *service.long(*command, seconds=times * _LONG_SECONDS))
            for _ in range(3):
                assert other.call("PING") == SimpleString(b"PONG")
                assert [200] * 3 == [service.get(path) for path in ("/livez", "/readyz", "/metrics")]
            unanswered = asked.reply is None
            asked.end()
            assert not isinstance(asked.reply, ErrorReply)
            if unanswered:
                break
        assert unanswered


def content(connection: Connection) -> tuple[Any, ...]:
    """What the long writes of these tests may change, once the log is applied."""
    keys = [f"k{number}" for number in (0, KEYS // 2, KEYS - 1)]
    while isinstance(size := connection.call("DBSIZE"), ErrorReply):
        assert size.text.startswith(b"LOADING ")
    return connection.call("SCARD", "d"), connection.call("EXISTS", *keys), size


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["SUNIONSTORE", "MSET"])
def test_killed_in_the_middle(service: Service, name: str) -> None:
    """After kill -9 in the middle of a long write all of it is there or nothing, as a replay has it.

    All of it if it was acknowledged; and it is met in between, in the log and not yet answered.
    """
    pings = 8
    before, after = (0, 0, 2), (MEMBERS * 3 // 2, 0, 3) if name == "SUNIONSTORE" else (0, 3, 2 + KEYS)
    found: list[tuple[Any, bool]] = []
    while len(found) < _KILLS or (after, True) not in found:
        with service.running(), closing(service.connect()) as other:
            if not found:
                service.fill()
                command = service.long(name, "d", seconds=1.0) if name == "SUNIONSTORE" else mset()
            if content(other) != before:
                other.call("DEL", "d", *(f"k{number}" for number in range(KEYS)))
            assert before == content(other)
            asked = Asked(service, *command)
            until_it_runs(other, name.lower())
            for _ in range(pings):
                other.call("PING")
            service.process.kill()
            asked.end()
        with service.running(), closing(service.connect()) as other:
            found.append((content(other), asked.is_lost))
            assert found[-1] in {(before, True), (after, True), (after, False)}
            assert OK == other.call("DEBUG", "RELOAD")
        pings = pings * 2 if found[-1][0] == before else pings // 2  # a later kill, or an earlier one
        assert len(found) < _KILLS_MAX


def mset() -> list[str]:
    """One write of very many keys."""
    return ["MSET", *(word for number in range(KEYS) for word in (f"k{number}", "v"))]


@pytest.mark.timeout(300)
def test_stopped_in_the_middle_of_a_read(service: Service) -> None:
    """SIGTERM does not wait for a read that takes very long: the client may ask again, the process ends with 0."""
    with service.running(), closing(service.connect()) as other:
        service.fill()
        asked = Asked(service, *service.long("SUNION", seconds=300.0))
        until_it_runs(other, "sunion")
        assert service.process.terminate() == 0
        asked.end()
        assert asked.reply == ErrorReply(b"LOADING slotlog is shutting down; nothing was written")


@pytest.mark.timeout(300)
def test_stopped_in_the_middle_of_a_write(service: Service) -> None:
    """Nor for such a write: its client hears that the outcome is unknown, and it happens at the next start.

    Whatever was acknowledged before is there.
    """
    with service.running(), closing(service.connect()) as other:
        service.fill()
        assert OK == other.call("SET", "k0", "acknowledged")
        asked = Asked(service, *service.long("SUNIONSTORE", "d", seconds=_STOP_SECONDS))
        until_it_runs(other, "sunionstore")
        assert service.process.terminate() == 0
        asked.end()
        if asked.reply != MEMBERS * 3 // 2:  # the machine has become quicker meanwhile
            assert isinstance(asked.reply, ErrorReply)
            assert asked.reply.text.startswith(b"UNKNOWNOUTCOME the write is in the log and not applied yet: ")
    with service.running(), closing(service.connect()) as other:
        assert (MEMBERS * 3 // 2, 1, 4) == content(other)
