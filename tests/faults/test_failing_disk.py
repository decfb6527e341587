"""A disk that fails once, or for a while: nothing acknowledged is lost, nothing is called damaged, `/readyz` tells."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.failing import FOR_EVER, FailingDisk
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run
from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.real.process import free_ports

SWEEP: Final = int(os.environ.get("DISK_FAILURES", "1"))
"""Which calls fail, in turn: the first, the second, up to this one; the variable asks for more of them for a night."""

LOG, STATE = "log.sqlite3", "/data/0/"
KINDS: Final = ("read", "write", "sync")
EXPECTED: Final = (b"UNKNOWNOUTCOME the write ", b"ERR partition 0 is stopped: ", b"ERR nothing was written: ")
WAIT_SECONDS: Final = 60.0


class Service:
    """A service whose disk can be made to fail, and what a client knows of it.

    Args:
        data: its data directory.
        environment: of its processes.
    """

    def __init__(self, data: Path, environment: Mapping[str, str]) -> None:
        self.data = data
        self._environment = dict(environment)
        self.acknowledged: dict[str, bytes] = {}
        self.lines: list[dict[str, Any]] = []
        self._written = 0
        self._ports = free_ports(2)

    def started(self) -> ServiceProcess:
        """A process that begins to start."""
        resp, http = (f"127.0.0.1:{port}" for port in self._ports)
        options = ["--data", str(self.data), "--resp", resp, "--http", http]
        return ServiceProcess(options, self._environment)

    def readiness(self) -> tuple[int, Any]:
        """Status and document of `/readyz`; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[1]}/readyz", timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def until(self, status: int) -> Any:
        """The document of the first answer with that status."""
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            found, document = self.readiness()
            if found == status:
                return document
            time.sleep(0.05)
        raise AssertionError(f"/readyz was not {status} within {WAIT_SECONDS} s: {self.readiness()}")

    def write(self, count: int, size: int = 1) -> list[bytes]:
        """Write so many keys, with values of `size` bytes at least, one by one; the errors that were answered."""
        errors = []
        with closing(Connection(("127.0.0.1", self._ports[0]))) as client:
            for _ in range(count):
                self._written += 1
                key, value = f"k{self._written}", b"%0*d" % (size, self._written)
                reply = client.call("SET", key, value)
                if isinstance(reply, ErrorReply):
                    errors.append(reply.text)
                else:
                    assert SimpleString(b"OK") == reply
                    self.acknowledged[key] = value
        return errors

    def lost(self) -> list[str]:
        """The acknowledged keys that are not there."""
        return [key for key, value in self.read().items() if value != self.acknowledged[key]]

    def read(self) -> dict[str, Any]:
        """What a GET of each acknowledged key is answered."""
        with closing(Connection(("127.0.0.1", self._ports[0]))) as client:
            return {key: client.call("GET", key) for key in self.acknowledged}

    def end(self, process: ServiceProcess) -> None:
        """End a process in order, and keep what it said."""
        assert 0 == process.terminate()
        self.keep(process)

    def keep(self, process: ServiceProcess) -> None:
        """Keep what a process has said that has ended."""
        process.wait_for_end()
        self.lines += process.seen

    def said_wrongly(self) -> list[dict[str, Any]]:
        """The lines that call something damaged, or show a stack of calls."""
        return [line for line in self.lines if "is damaged" in str(line) or "Traceback" in str(line)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    """One that is well so far."""
    made = FailingDisk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def service(tmp_path: Path, disk: FailingDisk) -> Service:
    """One on that disk."""
    return Service(tmp_path / "data", disk.environment)


def check_whole(service: Service, log_url: str) -> None:
    """State and log are sound, and a replay of the one gives the other."""
    again = service.data.parent / "again"
    for words in (("check",), ("check", "--log", log_url), ("replay", "--to", again, "--log", log_url)):
        result = run(*words, "--data", service.data)
        assert (0, "") == (result.exit_code, "" if result.exit_code == 0 else result.output)


@pytest.mark.timeout(1800)
def test_each_call_of_a_running_service_fails_once(service: Service, disk: FailingDisk) -> None:
    """Reads, writes and syncs of the log and of the state: it answers what it does not know, and goes on by itself."""
    answered, failed = set(), 0
    with service.started() as process:
        for word in (LOG, STATE):
            for kind in KINDS:
                for at in range(1, SWEEP + 1):
                    service.until(200)
                    disk.fail(kind, word, at, 1)
                    answered |= set(service.write(max(6, at)))
                    failed += disk.failed
                    disk.calm()
        service.until(200)
        lost = service.lost()
        service.end(process)

    assert [] == lost
    assert [] == [text for text in answered if not text.startswith(EXPECTED)]
    assert [] == service.said_wrongly()
    assert failed >= 3 * SWEEP  # the state's reads are from memory, and it is not synced at each write
    check_whole(service, f"sqlite:///{service.data / LOG}")


@pytest.mark.parametrize(
    ("kind", "word", "reason", "answered"),
    [
        ("write", LOG, "the last append failed, so that nothing can be written: ", 0),
        ("sync", LOG, "the last append failed, so that nothing can be written: ", 0),
        ("write", STATE, "IO error: While appending to file: ", 1),  # the log has it before RocksDB is written
    ],
)
@pytest.mark.timeout(300)
def test_a_disk_that_fails_for_a_while(
    service: Service, disk: FailingDisk, kind: str, word: str, reason: str, answered: int
) -> None:
    """`/readyz` is 503 with the reason as long as nothing can be written, and 200 when the disk is well again."""
    with service.started() as process:
        service.until(200)
        service.write(20)
        service.until(200)  # and what the last of them has left to be written behind its answer is written
        disk.fail(kind, word, 1, FOR_EVER)
        errors = service.write(3)
        (partition,) = service.until(503)["partitions"]
        disk.calm()
        service.until(200)
        service.write(3)
        lost = service.lost()
        service.end(process)

    assert reason in partition["reason"]
    assert 3 - answered == len(errors)
    assert [] == [text for text in errors if not text.startswith(EXPECTED)]
    assert ([], []) == (lost, service.said_wrongly())
    check_whole(service, f"sqlite:///{service.data / LOG}")


@pytest.mark.parametrize("word", [LOG, STATE])
@pytest.mark.timeout(1800)
def test_each_call_of_a_start_fails_once(service: Service, disk: FailingDisk, word: str) -> None:
    """It starts all the same, or goes on by itself, or ends with a sentence; the next start finds all of it."""
    with service.started() as process:
        service.until(200)
        service.write(50)
        service.end(process)
    for kind in KINDS:
        for at in range(1, SWEEP + 1):
            disk.fail(kind, word, at, 1)
            with service.started() as process:
                while process.is_running() and service.readiness()[0] != 200:
                    time.sleep(0.05)
                if process.is_running():
                    service.end(process)
                else:
                    assert 1 == process.exit_code()
                    service.keep(process)
                    assert service.lines[-1]["text"].startswith("slotlog: ")
            disk.calm()
    with service.started() as process:
        service.until(200)
        lost = service.lost()
        service.end(process)

    assert ([], []) == (lost, service.said_wrongly())
    check_whole(service, f"sqlite:///{service.data / LOG}")
