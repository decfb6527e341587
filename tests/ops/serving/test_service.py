"""`slotlog serve` as a process: start, stop, health, ownership, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import CapturingLogger

from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes
from ops.config import load_settings
from ops.serving.service import Service
from slotlog.errors import LogUnavailableError
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.wording import sized
from tests.faults.service import ServiceProcess
from tests.layouts import column_families
from tests.ops.verbs import get, metric, run, succeed, until, wait_for_offset, wait_until, write_lines
from tests.real.broker import KafkaBroker

ANY_PORT = ("--http", "127.0.0.1:0")
INCR = {"cmd": "INCR", "args": ["n"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that is not there yet."""
    return tmp_path / "data"


def serve(data: Path, *options: str, **environment: str) -> ServiceProcess:
    """A service on `data` that has started."""
    variables = {f"SLOTLOG_{name.upper()}": value for name, value in environment.items()}
    service = ServiceProcess(["--data", str(data), *ANY_PORT, *options], variables)
    service.wait_for("started")
    return service


def refusal(*options: object) -> str:
    """What a `slotlog serve` says last that must not start."""
    result = run("serve", *options, "--http", "")
    assert 1 == result.exit_code, result.output
    return result.stderr.splitlines()[-1]


def test_stop_under_load_loses_and_repeats_nothing(data: Path, tmp_path: Path) -> None:
    """While events stream in, reads go on; SIGTERM ends it; the next start applies the rest, once."""
    file = write_lines(tmp_path / "events", [INCR] * 20_000)
    succeed("produce", write_lines(tmp_path / "first", [INCR]), "--data", data)
    produce = [sys.executable, "-m", "ops.cli", "produce", str(file), "--data", str(data)]
    with serve(data) as service, subprocess.Popen(produce, stdout=subprocess.DEVNULL) as load:
        wait_until(lambda: metric(service, "slotlog_next_offset")['partition="0"'] > 1, "the load to arrive")
        seen = [int(succeed("query", "--data", data, "GET", "n").strip('"\n')) for _ in range(5)]
        assert 0 == service.terminate()
        assert "stopped" == service.wait_for("stopped")["event"]
        assert 0 == load.wait()
    before = json.loads(succeed("digest", "--data", data, "--json"))["partitions"][0]["next_offset"]
    with serve(data) as service:
        wait_for_offset(service, 20_001)
        applied = metric(service, "slotlog_events_applied_total")
        assert 0 == service.terminate()

    assert sorted(seen) == seen
    assert {'partition="0"': 20_001 - before} == applied
    assert '"20001"\n' == succeed("query", "--data", data, "GET", "n")


def test_stop_while_the_broker_does_not_answer(tmp_path: Path) -> None:
    """SIGTERM ends a service even while it waits for a broker that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        log = f"kafka://127.0.0.1:{mute.getsockname()[1]}"
        with ServiceProcess(["--data", str(tmp_path), "--log", log, "--http", ""]) as service:
            connection, _ = mute.accept()
            assert 0 == service.terminate()
            connection.close()


def test_kafka_that_comes_up_later_is_waited_for(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """Started while Kafka is away, a service says so, is not ready, and goes on by itself once Kafka is there."""
    own_broker.kill()
    options = ["--data", str(tmp_path), "--log", f"kafka://{own_broker.bootstrap}", "--http", "127.0.0.1:0"]
    with ServiceProcess(options) as service:
        waits = service.wait_for("stamina.retry_scheduled")
        status, ready = get(service, "/readyz")
        own_broker.start()
        service.wait_for("started")
        assert 0 == service.terminate()

    assert ("warning", True) == (waits["level"], own_broker.bootstrap in waits["caused_by"])
    assert (503, False) == (status, json.loads(ready)["ready"])


async def test_kafka_that_goes_away_while_it_opens(
    data: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka that fails between its first answer and the start is waited for as well; until then nothing is open."""
    service = Service(
        load_settings(
            data=data,
            log=f"kafka://{kafka_bootstrap}",
            topic=f"opens-{uuid4().hex}",
            partitions=2,
            http="",
            resp="127.0.0.1:0",
            redis={"peers": "0-1=127.0.0.1:7000"},
        )
    )
    assert service.resp is not None
    seen: list[set[str]] = []
    check, answer_clients = service._log.check, service.resp.open

    def conditions() -> set[str]:
        return {owned.condition.value for owned in service.consumer.partitions.values()}

    async def fail_at_the_second_partition(partition: int, *state: Any) -> None:
        seen.append(conditions())
        if len(seen) == 2:
            raise LogUnavailableError("the broker went away")
        await check(partition, *state)

    async def fail_at_first() -> None:
        seen.append(conditions())
        if len(seen) == 5:
            raise LogUnavailableError("and again")
        await answer_clients()

    monkeypatch.setattr(service._log, "check", fail_at_the_second_partition)
    monkeypatch.setattr(service.resp, "open", fail_at_first)
    running = asyncio.create_task(service.run())
    await until(lambda: running.done() or all(each.ready for each in service.health()))
    service.stop()
    await running

    assert [*[{"opening"}] * 4, {"running"}, {"running"}] == seen[:6]


def test_second_service_is_refused(data: Path, tmp_path: Path) -> None:
    """A second service on the same state ends with a plain message, and the first one is unharmed."""
    with serve(data) as first:
        with ServiceProcess(["--data", str(data), "--http", ""]) as second:
            assert 1 == second.exit_code()
            second.wait_for_end()
        succeed("produce", write_lines(tmp_path / "events", [INCR]), "--data", data)
        wait_for_offset(first, 1)

    assert (
        f"slotlog: {data}/0 is open in another process; stop it first, or read beside it with `slotlog query`"
        == second.seen[-1]["text"]
    )


def test_state_of_something_else_is_refused(data: Path, tmp_path: Path) -> None:
    """A state opened with another topic, number of partitions or layout is refused, with what to do."""
    log = f"sqlite:///{data / 'log.sqlite3'}"
    succeed("produce", write_lines(tmp_path / "events", [INCR]), "--data", data, "--log", log)
    with serve(data, "--log", log) as service:
        wait_for_offset(service, 1)
    other, cluster = (f"sqlite:///{tmp_path / name}" for name in ("other", "cluster"))
    succeed("produce", tmp_path / "events", "--data", data, "--log", other, "--topic", "other")
    succeed("produce", tmp_path / "events", "--data", data, "--log", cluster, "--partitions", 2)
    topic = refusal("--data", data, "--log", other, "--topic", "other")
    partitions = refusal("--data", data, "--log", cluster, "--partitions", 2)
    store = RocksStore(data / "0", column_families())
    changes = Changes()
    changes.of(SYSTEM_CF)[b"layout"] = b"another"
    store.write(changes)
    store.close()
    layout = refusal("--data", data, "--log", log)

    for said, found, wanted in (
        (topic, "its topic is slotlog", "not other"),
        (partitions, "its topic has 1 partitions", "not 2"),
        (layout, "its layout is another", "not neokv"),
    ):
        assert found in said
        assert wanted in said
        assert said.endswith("; choose another --data, or set the options to match")


def test_log_of_something_else_is_refused(data: Path, tmp_path: Path) -> None:
    """A log opened with another topic or number of partitions is refused by its name."""
    succeed("produce", write_lines(tmp_path / "events", [INCR]), "--data", data)

    assert "holds the topic 'slotlog', but was opened as 'other'" in refusal("--data", data, "--topic", "other")
    assert "has 1 partition, but was opened with 2" in refusal("--data", data, "--partitions", 2)


def test_health_is_on_loopback(data: Path) -> None:
    """/livez and /readyz answer, on 127.0.0.1 and no other address of this machine."""
    with serve(data) as service:
        wait_until(lambda: get(service, "/readyz").status == 200, "the service to be ready")
        live, ready, absent = (get(service, path) for path in ("/livez", "/readyz", "/secrets"))
        port = next(line["port"] for line in service.seen if line["event"] == "http")
        own_address = socket.gethostbyname(socket.gethostname())
        with socket.socket() as probe:
            probe.settimeout(5)
            reached = own_address.startswith("127.") or probe.connect_ex((own_address, port)) == 0

    assert (200, {"live": True}, 404) == (live.status, live.json, absent.status)
    assert {
        "ready": True,
        "log": {"ready": True, "reason": "", "warnings": []},
        "disk": {"ready": True, "reason": ""},
        "clock": {"ready": True, "reason": ""},
        "partitions": [{"partition": 0, "condition": "running", "ready": True, "lag_events": 0, "reason": ""}],
    } == ready.json
    assert own_address.startswith("127.") or not reached


def test_public_address_is_warned_of(data: Path) -> None:
    """Another address than loopback is a decision of the operator's, and the log says what it means."""
    with ServiceProcess(["--data", str(data), "--http", "0.0.0.0:0"]) as service:
        service.wait_for("started")

    assert ["http_is_public"] == [line["event"] for line in service.seen if line.get("level") == "warning"]


def test_tls_without_resp_is_warned_of(data: Path) -> None:
    """Without --resp nobody listens on the address for TLS either, and the log says so."""
    environment = {"SLOTLOG_REDIS__TLS": "127.0.0.1:0", "SLOTLOG_REDIS__SENTINEL": "127.0.0.1:0"}
    with ServiceProcess(["--data", str(data), "--http", "", "--resp", ""], environment) as service:
        service.wait_for("started")

    warnings = [line for line in service.seen if line.get("level") == "warning"]
    assert ["resp_is_off"] == [line["event"] for line in warnings]
    assert ["SLOTLOG_REDIS__TLS", "SLOTLOG_REDIS__SENTINEL"] == warnings[0]["without_effect"]


def test_resp_off_alone_is_no_warning(data: Path) -> None:
    """A service that serves no Redis clients on purpose warns of nothing."""
    with ServiceProcess(["--data", str(data), "--http", "", "--resp", ""]) as service:
        service.wait_for("started")

    assert [] == [line["event"] for line in service.seen if line.get("level") == "warning"]


def test_taken_port_is_refused(data: Path) -> None:
    """An address in use ends the start with its name."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--data", data, "--http", f"127.0.0.1:{port}")

    assert 1 == result.exit_code
    assert str(port) in result.stderr.splitlines()[-1]


def test_partitions_share_a_process(data: Path, tmp_path: Path) -> None:
    """One process applies several partitions; reads find the right one, and DBSIZE adds up."""
    events = [{"cmd": "SET", "args": [f"key:{number}", str(number)]} for number in range(50)]
    said = json.loads(
        succeed("produce", write_lines(tmp_path / "events", events), "--data", data, "--partitions", 4, "--json")
    )
    with serve(data, "--partitions", "4") as service:
        for held in said["partitions"]:
            wait_for_offset(service, held["records"], held["partition"])
        assert 0 == service.terminate()
    query = ("query", "--data", data, "--partitions", 4)

    assert "(integer) 50\n" == succeed(*query, "DBSIZE")
    assert ['"7"\n', '"31"\n'] == [succeed(*query, "GET", f"key:{number}") for number in (7, 31)]
    assert "CROSSSLOT" in run(*query, "MGET", "key:1", "key:2").stderr


def test_two_processes_each_own_half(data: Path, tmp_path: Path) -> None:
    """--own 0-1 and --own 2-3 apply one log side by side; each says only its own partitions."""
    events = [{"cmd": "SET", "args": [f"key:{number}", str(number)]} for number in range(50)]
    said = json.loads(
        succeed("produce", write_lines(tmp_path / "events", events), "--data", data, "--partitions", 4, "--json")
    )
    with (
        serve(data, "--partitions", "4", "--own", "0-1") as low,
        serve(data, "--partitions", "4", "--own", "2-3") as high,
    ):
        for held in said["partitions"]:
            wait_for_offset(low if held["partition"] < 2 else high, held["records"], held["partition"])
        owned = [
            [partition["partition"] for partition in get(service, "/readyz").json["partitions"]]
            for service in (low, high)
        ]
        assert 0 == low.terminate()
        assert 0 == high.terminate()

    assert [[0, 1], [2, 3]] == owned
    assert "(integer) 50\n" == succeed("query", "--data", data, "--partitions", 4, "DBSIZE")
    assert '"31"\n' == succeed("query", "--data", data, "--partitions", 4, "GET", "key:31")


async def test_full_disk_makes_it_wait(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the free-space reserve nothing is applied and the reason is said; with room it goes on by itself."""
    reserve = 1 << 30
    free = [reserve - 1]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free[0]))
    service = Service(load_settings(data=data, http="", free_bytes_min=reserve))
    running = asyncio.create_task(service.run())
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="slotlog", partitions=1)
    await log.start()
    await log.append([Entry(0, b"\0\0", encode("INCR", ["n"]))])
    await log.close()
    await until(lambda: service.health()[0].condition == "waiting")
    waiting = service.health()[0]
    applied = service.consumer.partitions[0].worker.machine.next_offset
    free[0] = reserve
    await until(lambda: service.health()[0].ready)
    await until(lambda: service.consumer.partitions[0].worker.machine.next_offset == 1)
    service.stop()
    await running

    left, kept = sized(reserve - 1), sized(reserve)
    assert f"the disk of {data} has {left} left, less than the reserve of {kept}; make room" == waiting.reason
    assert (False, 0) == (waiting.ready, applied)
    assert '"1"\n' == succeed("query", "--data", data, "GET", "n")


async def test_what_ends_it_is_logged_with_its_origin(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw ends the service with its traceback in the log, not with its text alone."""
    service = Service(load_settings(data=data, http=""))

    async def fail(_: asyncio.Event) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(service.consumer, "run", fail)
    said = CapturingLogger()
    monkeypatch.setattr("ops.serving.service.logger", said)
    with pytest.raises(RuntimeError, match="unforeseen"):
        await service.run()

    assert ("exception", ("failed",), {}) in said.calls
