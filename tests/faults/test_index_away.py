"""A service is killed beside the Redis server that has its sorted sets, and outlives that server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, succeed, wait_until
from tests.real.oracle import Connection, ErrorReply, Oracle, SimpleString
from tests.real.process import ServerError

pytestmark = pytest.mark.timeout(180)

VARIABLE = "SLOTLOG_INDEX"
LONG = "m" * 40


class Gate:
    """Stands between a service and its index, and tells when a batch comes by.

    Args:
        target: the index's Unix socket.
        path: of its own one.
    """

    def __init__(self, target: str, path: Path) -> None:
        self.url = f"unix://{path}"
        self.met = threading.Event()
        self._target = target
        self._tell: Callable[[], None] | None = None
        self._passes = True
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def arm(self, tell: Callable[[], None], *, passes: bool) -> None:
        """Call `tell` once the next batch comes by, which then passes or does not."""
        self._tell, self._passes = tell, passes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:  # closed
                return
            outer = socket.socket(socket.AF_UNIX)
            outer.connect(self._target)
            for source, target in ((inner, outer), (outer, inner)):
                self._threads.append(threading.Thread(target=self._pass_on, args=(source, target, source is inner)))
                self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_question: bool) -> None:
        passes = True
        try:
            while passes and (data := source.recv(1 << 20)):
                tell = self._tell
                if tell is not None and is_question and b"\r\nEVAL\r\n" in data:
                    self._tell, passes = None, self._passes
                    if passes:
                        target.sendall(data)
                    tell()
                    self.met.set()
                elif passes:
                    target.sendall(data)
        except OSError:  # one of the two is gone, and so is the other one now
            pass
        for each in (source, target):
            with closing(each):
                _hang_up(each)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return


@contextmanager
def client_of(service: ServiceProcess) -> Iterator[Connection]:
    """A client of a service that was started with `--resp 127.0.0.1:0`."""
    port = next(line["port"] for line in service.seen if line["event"] == "resp")
    with closing(Connection(("127.0.0.1", port))) as client:
        yield client


def test_a_service_outlives_its_index(index_server: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it /readyz and replies name it, and string writes are refused; after its return nothing is lost."""
    url, data = f"unix://{index_server.path}", ["--data", str(tmp_path / "data")]
    faces = ["--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    options = [*data, "--partitions", "1", "--layout", "camellia-v1", "--index", url, *faces]
    with ServiceProcess(options) as service:
        service.wait_for("started")
        with client_of(service) as client:
            assert [2, SimpleString(b"OK")] == client.pipeline([["ZADD", "z", 1, "a", 2, LONG], ["SET", "k", "v"]])
            index_server.kill()
            unknown = client.call("ZINCRBY", "z", 5, "a")
            wait_until(lambda: get(service, "/readyz").status == 503, "the index to be missed")
            away = get(service, "/readyz").json["partitions"][0]
            refused = [client.call("ZSCORE", "z", "a"), client.call("SET", "k", "w")]
            index_server.start()
            wait_until(lambda: get(service, "/readyz").status == 200, "it to be ready again")
            after = client.pipeline([["ZRANGE", "z", 0, -1, "WITHSCORES"], ["GET", "k"], ["ZINCRBY", "z", 1, "a"]])
        assert 0 == service.terminate()

    reason = f"the index in {url} cannot be used"
    assert ("stopped", reason) == (away["condition"], away["reason"][: len(reason)])
    assert isinstance(unknown, ErrorReply)
    assert unknown.text.startswith(b"UNKNOWNOUTCOME the write is in the log and not applied yet: " + reason.encode())
    for reply in refused:
        assert isinstance(reply, ErrorReply)
        assert reply.text.startswith(b"ERR partition 0 is stopped: " + reason.encode())
    assert [[LONG.encode(), b"2", b"a", b"6"], b"v", b"7"] == after
    monkeypatch.setenv(VARIABLE, url)
    succeed("check", *data)


def test_a_service_starts_without_its_index_and_says_so(index_server: Oracle, tmp_path: Path) -> None:
    """The start is refused with a sentence that names the server, and works as soon as it is there."""
    options = ["--data", str(tmp_path / "data"), "--layout", "camellia-v1", "--index", f"unix://{index_server.path}"]
    index_server.kill()
    with ServiceProcess([*options, "--http", "", "--resp", ""]) as service:
        refused = service.exit_code()
        service.wait_for_end()
    index_server.start()
    with ServiceProcess([*options, "--http", "", "--resp", ""]) as again:
        again.wait_for("started")
        assert 0 == again.terminate()

    assert 1 == refused
    assert any(f"the index in unix://{index_server.path} cannot be used" in str(line) for line in service.seen)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_kill_between_state_and_index_is_repaired(
    index_server: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, arrives: bool
) -> None:
    """The state has the batch, and the index has it or not: the next start makes them one, as a replay from the log."""
    data = ["--data", str(tmp_path / "data")]
    with Gate(index_server.path, Path(index_server.path).with_name("gate")) as gate:
        options = [*data, "--partitions", "1", "--layout", "camellia-v1", "--index", gate.url, "--http", ""]
        with ServiceProcess([*options, "--resp", "127.0.0.1:0"]) as service:
            service.wait_for("started")
            with client_of(service) as client:
                assert 2 == client.call("ZADD", "z", 1, "a", 2, "b")
                gate.arm(service.kill, passes=arrives)
                with pytest.raises((ServerError, ConnectionError)):
                    client.call("ZINCRBY", "z", 5, "a")
            assert gate.met.wait(30)
        with closing(index_server.connect()) as inside:
            reached = inside.call("GET", "slotlog/slotlog/0").rpartition(b":")[2]
        with ServiceProcess([*options, "--resp", "127.0.0.1:0"]) as service:
            service.wait_for("started")
            with client_of(service) as client:
                scores = client.pipeline([["ZSCORE", "z", "a"], ["ZINCRBY", "z", 1, "a"], ["ZADD", "z", 1, LONG]])
            assert 0 == service.terminate()

    assert b"2" if arrives else b"1" == reached
    assert [b"6", b"7", 1] == scores
    monkeypatch.setenv(VARIABLE, f"unix://{index_server.path}")
    succeed("check", *data)
    digest = succeed("digest", *data).split()[0]
    again, second = ["--data", str(tmp_path / "again")], f"unix://{index_server.path}?db=1"
    succeed("replay", *data, "--to", again[1], "--index", second)
    monkeypatch.setenv(VARIABLE, second)
    assert digest == succeed("digest", *again).split()[0]
