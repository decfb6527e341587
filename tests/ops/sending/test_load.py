"""`slotlog load`: traffic of all kinds for a service, whether it is there already, goes away or is a cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ops.sending.load import CommandRefused, LoadConnection, Traffic
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, wait_until
from tests.real.oracle import Connection as Client
from tests.real.process import free_ports

TYPES = {"string", "counter", "hash", "list", "set", "zset", "once", "text"}


def service(data: Path, port: int, *options: str, **environment: str) -> ServiceProcess:
    """A service for Redis clients on that port."""
    resp = ["--data", str(data), "--http", "", "--resp", f"127.0.0.1:{port}"]
    return ServiceProcess([*resp, *options], environment)


def test_all_kinds_of_commands_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings, hashes, lists, sets and sorted sets are written, some with a time to live; few commands are refused."""
    (port,) = free_ports(1)
    monkeypatch.setenv("SLOTLOG_REDIS__PASSWORD", "of-this-test")
    with service(tmp_path, port) as it:
        it.wait_for("resp")
        said = json.loads(
            succeed("load", "--resp", f"127.0.0.1:{port}", "--rate", 2000, "--seconds", 3, "--keys", 50, "--json")
        )
        client = Client(("127.0.0.1", port))
        client.call("AUTH", "of-this-test")
        keys = client.call("KEYS", "*")
        expiring = client.call("INFO", "keyspace").partition(b"expires=")[2].partition(b",")[0]
        client.close()
        assert it.terminate() == 0

    assert {key.partition(b":")[0].decode() for key in keys} == TYPES
    assert int(expiring) > 0
    assert said["answered"] > 1000
    assert list(said["errors"]) == ["ERR"]
    assert 0 < said["errors"]["ERR"] < said["answered"] / 20
    assert 0 < said["latency_ms"]["p50"] <= said["latency_ms"]["p99"]


def test_a_cluster_is_reached_from_one_address(tmp_path: Path) -> None:
    """Each worker gets the commands of its own slots: nobody answers MOVED, and all partitions are written to."""
    low, high = free_ports(2)
    peers = {"SLOTLOG_REDIS__PEERS": f"0-1=127.0.0.1:{low},2-3=127.0.0.1:{high}"}
    log = ["--log", f"sqlite:///{tmp_path}/log", "--partitions", "4"]
    with (
        service(tmp_path / "data", low, *log, "--own-of", "0/2", **peers) as first,
        service(tmp_path / "data", high, *log, "--own-of", "1/2", **peers) as second,
    ):
        first.wait_for("resp")
        second.wait_for("resp")
        said = succeed("load", "--resp", f"127.0.0.1:{high}", "--rate", 1000, "--seconds", 2, "--json")
        assert (first.terminate(), second.terminate()) == (0, 0)
    partitions = json.loads(succeed("digest", "--data", tmp_path / "data", *log[:2], "--json"))["partitions"]

    assert set(json.loads(said)["errors"]) <= {"ERR"}
    assert [partition["next_offset"] > 0 for partition in partitions] == [True] * 4


def test_nobody_there_is_a_failure() -> None:
    """When nothing was answered the exit code is 1, and the reason is said."""
    (port,) = free_ports(1)
    words = ("load", "--resp", f"127.0.0.1:{port}", "--seconds", 0.3)
    plain, as_json = run(*words), run(*words, "--json")

    assert (plain.exit_code, as_json.exit_code) == (1, 1)
    assert plain.stdout.startswith("0 of 0 commands answered")
    assert f"('127.0.0.1', {port})" in plain.stderr
    assert json.loads(as_json.stdout)["kind"] == "ConnectionError"


def test_another_server_is_a_failure() -> None:
    """What speaks no RESP is said to, with what to look at."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with server.accept()[0] as client:
                client.recv(1000)
                client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=refuse)
        answering.start()
        done = run("load", "--resp", f"127.0.0.1:{server.getsockname()[1]}", "--seconds", 0.5, "--clients", 1)
        answering.join()

    assert (1, True) == (done.exit_code, "does not speak Redis' protocol" in done.stderr)


def test_it_waits_for_a_service_and_outlives_it(tmp_path: Path) -> None:
    """Traffic begins when the service comes, goes on when it comes back, and ends well at SIGTERM."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "ops.cli", "load", "--resp", f"127.0.0.1:{port}", "--seconds", "0", "--json"]
    data = tmp_path / "data"

    def keys() -> int:
        client = Client(("127.0.0.1", port))
        try:
            size = client.call("DBSIZE")
            return size if isinstance(size, int) else 0
        finally:
            client.close()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as load:
        try:
            for _ in range(2):
                with service(data, port) as it:
                    it.wait_for("started")
                    before = keys()
                    wait_until(lambda before=before: keys() > before, "traffic")  # type: ignore[misc]
                    it.kill()
            load.send_signal(signal.SIGTERM)
            said, _ = load.communicate(timeout=60)
        finally:
            load.kill()

    assert load.returncode == 0
    assert json.loads(said)["answered"] > 0


async def test_replies_of_every_kind_are_read() -> None:
    """Status, error, integer, bulk, nil and nested arrays come out as values, one after the other."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"+OK\r\n-MOVED 1 h:1\r\n:7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*2\r\n*1\r\n$0\r\n\r\n:1\r\n")
    connection = LoadConnection(reader, None)  # type: ignore[arg-type]  # nothing is written
    replies = [await connection.reply() for _ in range(7)]

    assert isinstance(replies[1], CommandRefused)
    assert str(replies.pop(1)) == "MOVED 1 h:1"
    assert replies == [b"OK", 7, b"a\r\n", None, None, [[b""], 1]]


def test_quantiles_are_those_of_what_was_measured() -> None:
    """A quantile is one of the measured times; without any it is 0."""
    traffic = Traffic()
    none = traffic.latency_seconds(0.99)
    traffic.latencies_seconds.extend(n / 100 for n in range(100, 0, -1))

    assert none == 0
    assert [traffic.latency_seconds(quantile) for quantile in (0, 0.5, 0.99, 1)] == [0.01, 0.51, 1.0, 1.0]
