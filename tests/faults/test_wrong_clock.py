"""One process whose wall clock is an hour ahead, or behind: keys live by the log's clock everywhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import sleep
from typing import Any, Final

import pytest
import redis

from tests.faults.clocks import ShiftedClock
from tests.faults.grouped import GroupedWorker, connect, keys_of
from tests.faults.ledger import Writer, lists
from tests.faults.rig import digests
from tests.faults.service import ServiceProcess
from tests.faults.workers import new_topic
from tests.ops.verbs import get, succeed, wait_until, write_lines
from tests.real import forks
from tests.real.process import free_ports

_HOUR_MS: Final = 3_600_000
_LIFE_SECONDS: Final = 1000
_SHORT_MS: Final = 300
_PARTITIONS: Final = 2


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[ShiftedClock]:
    """That of one process."""
    made = ShiftedClock(tmp_path)
    yield made
    made.close()


def _lives(client: redis.Redis, key: str) -> bool:
    """Whether every kind of read finds a key that was set to live for a while, and has most of that yet."""
    ttl: Any = client.ttl(key)
    found = [client.exists(key), client.get(key), key.encode() in [*client.scan_iter()], client.type(key)]
    return _LIFE_SECONDS - 60 < ttl <= _LIFE_SECONDS and found == [1, b"v", True, b"string"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("shift_ms", [_HOUR_MS, -_HOUR_MS])
def test_a_worker_of_a_group(kafka_bootstrap: str, tmp_path: Path, clock: ShiftedClock, shift_ms: int) -> None:
    """Ahead it serves as the other one does; behind it applies nothing, and says why; the other one takes over."""
    topic, ports, url = new_topic(), free_ports(2), f"kafka://{kafka_bootstrap}"
    keys = keys_of(_PARTITIONS)
    writer = Writer(ports, [f"{{{key}}}list" for key in keys])
    clock.set(shift_ms)
    with ExitStack() as stack:

        def start(number: int) -> GroupedWorker:
            variables = clock.environment if number == 0 else {}
            data, port = tmp_path / str(number), ports[number]
            options = {"session_seconds": 4, "standbys": 1, "variables": variables, "http": "127.0.0.1:0"}
            return stack.enter_context(GroupedWorker(data, url, topic, port, _PARTITIONS, **options))  # type: ignore[arg-type]

        workers = [start(0), start(1)]
        workers[0].wait_for("started")
        wait_until(lambda: all({*each.owners().values()} == {*ports} for each in workers), "both to own")
        writer.start()
        stack.callback(writer.stop)
        if shift_ms < 0:
            wait_until(lambda: "has a time in the future" in str(writer.errors), "it to say so", lambda: writer.errors)
            workers[0].kill()
            wait_until(lambda: {*workers[1].owners().values()} == {ports[1]}, "the other one to own all")
        writer.wait_for_more(10)
        for key in keys:
            with closing(connect(_owner(ports, key))) as client:
                client.set(key, "v", ex=_LIFE_SECONDS)
                client.set(f"{{{key}}}short", "v", px=_SHORT_MS)
                assert _lives(client, key)
                sleep(2 * _SHORT_MS / 1000)
                assert (None, 0) == (client.get(f"{{{key}}}short"), client.exists(f"{{{key}}}short"))
                assert _lives(client, key)
        if shift_ms > 0:
            assert f"{_HOUR_MS / 1000:.0f} s ahead of the log's" in str(
                get(workers[0], "/readyz").json["log"]["warnings"]
            )
            workers[0].kill()
        writer.stop()
        clock.set(0)
        workers[0] = start(0)
        workers[0].wait_for("started")
        succeed("clock", "agree", "--data", tmp_path / "0")  # it has been set right since the last start
        wait_until(lambda: all({*each.owners().values()} == {*ports} for each in workers), "both to own again")
        found = lists(ports, list(writer.written))
        held: list[dict[int, tuple[int, str]]] = []

        def are_at_one_position() -> bool:
            held[:] = [digests(tmp_path / str(number)) for number in range(2)]
            first, second = ({partition: at for partition, (at, _) in each.items()} for each in held)
            return first == second and len(first) == _PARTITIONS

        wait_until(are_at_one_position, "both copies to be at one position", lambda: held)

    assert {} == writer.faults(found), writer.errors
    log = "--log", url, "--topic", topic, "--partitions", _PARTITIONS
    succeed("replay", "--to", tmp_path / "replayed", "--data", tmp_path / "none", *log)
    assert [digests(tmp_path / "replayed")] * 2 == held


def _owner(ports: list[int], key: str) -> int:
    """The port at which reads of a key are answered."""
    found: list[int] = []

    def answers() -> bool:
        for port in ports:
            with closing(connect(port)) as client, suppress(redis.RedisError):
                client.exists(key)
                found.append(port)
        return bool(found)

    wait_until(answers, "an owner")
    return found[0]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shift_ms", [_HOUR_MS, -_HOUR_MS])
def test_a_producer_beside_a_service(tmp_path: Path, clock: ShiftedClock, shift_ms: int) -> None:
    """In the embedded log its records are held if they are ahead, and never older than those before them."""
    data, (port,) = tmp_path / "data", free_ports(1)
    file = write_lines(tmp_path / "events", [{"cmd": "SET", "args": ["late", "v", "EX", _LIFE_SECONDS]}])
    clock.set(shift_ms)
    with ServiceProcess(["--data", str(data), "--resp", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        with closing(connect(port)) as client:
            client.set("early", "v", ex=_LIFE_SECONDS)
            command = [sys.executable, "-m", "ops.cli", "produce", str(file), "--data", str(data)]
            assert 0 == forks.start(command, {**os.environ, **clock.environment}).wait(60)
            if shift_ms > 0:
                wait_until(lambda: "time in the future" in get(service, "/readyz").text, "it to be held")
                assert _lives(client, "early")
                with pytest.raises(redis.ResponseError, match="nothing was written"):
                    client.set("refused", "v")
                succeed("clock", "set", 0, "--data", data)
            wait_until(lambda: get(service, "/readyz").status == 200 and client.exists("late") == 1, "it to be applied")
            assert [True, True] == [_lives(client, key) for key in ("early", "late")]
            client.set("after", "v")
        assert 0 == service.terminate()

    succeed("replay", "--to", tmp_path / "replayed", "--data", data)
    assert digests(data) == digests(tmp_path / "replayed")
    assert 3 == json.loads(succeed("digest", "--data", data, "--json"))["partitions"][0]["keys"]
