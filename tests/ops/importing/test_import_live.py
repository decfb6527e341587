"""An import from a server that others write to, and one that is killed, or whose server is.

`make nightly` has a million keys beside those that are written to, IMPORT_KEYS any other number.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import pytest

from ops.sending.target import APPEND_ENTRIES_MAX
from tests.faults.service import ServiceProcess
from tests.ops.importing.contents import Contents, differing, fill, of_log, of_server, of_state, replayed, server
from tests.ops.verbs import run, succeed, wait_until
from tests.real.oracle import Connection, Oracle, SimpleString

KEYS: Final = int(os.environ.get("IMPORT_KEYS", "3000"))
"""That nobody writes to."""

LONG_KEYS: Final = 8000
"""As many as an import takes a second or more for, so that it is met in the middle."""

WRITTEN_KEYS: Final = 300
"""Of each type, that a writer writes to."""


class Writer:
    """Writes to a server from a thread until the block ends: every type, lives, renames and deletions.

    Args:
        source: the server.
        seed: of what it writes.
    """

    def __init__(self, source: Oracle, seed: int) -> None:
        self._connection = source.connect()
        self._choose = random.Random(seed)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._connection.pipeline([self._command() for _ in range(20)])
            self.written += 20

    def _command(self) -> tuple[Any, ...]:
        choose = self._choose
        number, value = choose.randrange(WRITTEN_KEYS), choose.randrange(10**9)
        return choose.choice(
            (
                ("SET", f"s{number}", value),
                ("SET", f"s{number}", value, "PX", choose.randrange(1, 2000)),
                ("INCR", f"n{number}"),
                ("RPUSH", f"l{number}", value),
                ("SADD", f"t{number}", value % 50),
                ("HSET", f"h{number}", value % 50, value),
                ("ZADD", f"z{number}", value, value % 50),
                ("DEL", f"{choose.choice('snlthz')}{number}"),
                ("RENAME", f"l{number}", f"l{value % WRITTEN_KEYS}"),
                ("PEXPIRE", f"h{number}", choose.randrange(1, 10**9)),
                ("PERSIST", f"h{number}"),
            )
        )


@contextmanager
def importing(source: Oracle, *options: object) -> Iterator[subprocess.Popen[str]]:
    """An import as a process of its own; killed if it is still there at the end of the block."""
    words = [sys.executable, "-m", "ops.cli", "import", f"unix://{source.path}", *map(str, options), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """The next log line of that name."""
    assert process.stderr is not None
    for text in process.stderr:
        with contextlib.suppress(ValueError):
            said: dict[str, Any] = json.loads(text)
            if said["event"] == event:
                return said
    raise AssertionError(f"it ended before {event}")


def populate(source: Oracle, keys: int) -> None:
    """So many small strings, beside one key of every kind."""
    connection = source.connect()
    fill(connection)
    for start in range(0, keys, 5000):
        connection.pipeline(("SET", f"key:{n}", n) for n in range(start, min(start + 5000, keys)))
    connection.close()


def of_source(source: Oracle) -> Contents:
    """Everything in databases 0 and 3."""
    connection = source.connect()
    try:
        return of_server(connection, (0, 3))
    finally:
        connection.close()


def alive(contents: Contents, now_ms: int) -> Contents:
    """Without what is due at that time."""
    return {key: value for key, value in contents.items() if value[2] is None or value[2] > now_ms}


def now_ms(source: Oracle) -> int:
    """The time of the server."""
    connection = source.connect()
    seconds, microseconds = connection.call("TIME")
    connection.close()
    return int(seconds) * 1000 + int(microseconds) // 1000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("binary", ["", "redis-server"])
def test_nothing_is_lost_or_twice_while_others_write(binary: str, tmp_path: Path) -> None:
    """While a writer goes on passes go on; once it has stopped, the import ends and both sides hold the same."""
    data = tmp_path / "data"
    with server(binary=binary) as source:
        populate(source, KEYS)
        with importing(source, "--data", data) as process:
            with Writer(source, seed=1) as writer:
                passes = [line(process, "import_pass") for _ in range(3)]
            said, _ = process.communicate()
        expected, ended_ms = of_source(source), now_ms(source)
    result = json.loads(said)

    assert 0 == process.returncode
    assert [True] * 3 == [each["changed"] > 0 for each in passes]
    assert 0 < writer.written
    assert [] == differing(alive(expected, ended_ms), alive(of_log(tmp_path / "state", "--data", data), ended_ms))
    assert result["notes"][0].endswith("If its writers have stopped, switch now")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_import_that_was_ended_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    """After SIGKILL or Ctrl-C the same command brings the rest; a key that was being appended may come twice."""
    options = ("--data", tmp_path / "data")
    with server() as source:
        populate(source, LONG_KEYS)
        expected = of_source(source)
        with importing(source, *options) as process:
            wait_until(lambda: any((tmp_path / "data" / "imports").glob("*/progress.json")), "the first append")
            process.send_signal(number)
            said, _ = process.communicate()
        second = json.loads(succeed("import", f"unix://{source.path}", *options, "--json"))

    assert {signal.SIGKILL: (-9, None), signal.SIGINT: (130, "Interrupted")}[number] == (
        process.returncode,
        json.loads(said)["kind"] if said else None,
    )
    assert 0 < second["earlier_keys"] < len(expected)
    assert 0 < second["events"]
    assert len(expected) <= replayed(tmp_path / "state", *options) <= len(expected) + 2 * APPEND_ENTRIES_MAX
    assert [] == differing(expected, of_state(tmp_path / "state"))


def test_source_that_goes_away_is_said_and_gone_on_with(tmp_path: Path) -> None:
    """When the server dies the import ends with one clear line; once it is back, the same command brings the rest."""
    data = tmp_path / "data"
    with server() as source:
        populate(source, LONG_KEYS)
        connection = source.connect()
        assert SimpleString(b"OK") == connection.call("SAVE")
        connection.close()
        expected = of_source(source)
        with importing(source, "--data", data) as process:
            wait_until(lambda: any((data / "imports").glob("*/progress.json")), "the first append")
            source.kill()
            said, _ = process.communicate()
        source.start()
        second = json.loads(succeed("import", f"unix://{source.path}", "--data", data, "--json"))
    first = json.loads(said)

    assert 1 == process.returncode
    assert "does not answer: " in first["error"]
    # After a restart the server may give the members of its hash tables in another order.
    assert len(expected) <= first["keys"] + second["keys"] <= len(expected) + len(("large set", "large hash"))
    assert [] == differing(expected, of_log(tmp_path / "state", "--data", data))


@pytest.mark.parametrize("log", ["embedded", "kafka"])
def test_service_runs_meanwhile(log: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A service with several partitions applies what is imported while it is, and clients read the source's keys."""
    options = ["--data", str(tmp_path / "data"), "--partitions", "4"]
    if log == "kafka":
        bootstrap = request.getfixturevalue("kafka_bootstrap")
        options += ["--log", f"kafka://{bootstrap}", "--topic", f"import-{uuid4().hex}"]
    with (
        server() as source,
        ServiceProcess([*options, "--http", "", "--resp", "127.0.0.1:0"]) as service,
    ):
        port = service.wait_for("resp")["port"]
        populate(source, 2000)
        result = run("import", f"unix://{source.path}", *options, "--db", 0, "--json")
        connection = source.connect()
        expected = of_server(connection)
        connection.close()
        clients = Connection(("127.0.0.1", port))
        wait_until(lambda: clients.call("DBSIZE") == len(expected), "the service to apply all")
        found = of_server(clients)
        clients.close()

    assert 0 == result.exit_code
    assert expected == found
