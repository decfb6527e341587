"""`slotlog serve --processes 2`, as a whole: one address for metrics and page, kills, ends, refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from redis.backoff import NoBackoff
from redis.retry import Retry

from slotlog.shared.slots import partition_of, slot
from tests.clients.programs import run as run_program
from tests.ops.serving.pages.test_page import address_of
from tests.ops.serving.pages.test_page_history import post
from tests.ops.serving.processes.running import PARTITIONS, Service
from tests.ops.verbs import get, run, succeed, wait_until
from tests.real.process import free_row

KEYS = [f"key:{number}" for number in range(32)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service that is ready."""
    with Service(tmp_path / "data") as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that is ready, for tests that leave it as it is."""
    with Service(tmp_path_factory.mktemp("shared") / "data") as running:
        running.wait_until_ready()
        yield running
        assert 0 == running.terminate()


def cluster(service: Service) -> redis.RedisCluster:
    """redis-py's cluster client, which tries nothing again by itself: what it has sent may be in the log."""
    return redis.RedisCluster(host="127.0.0.1", port=service.port, retry=Retry(NoBackoff(), 0), decode_responses=True)


class Load(threading.Thread):
    """A client that pushes numbers to lists in all partitions.

    Attributes:
        pushed: of each key the numbers that were acknowledged.
        failed: how many pushes had an error.
    """

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.pushed: dict[str, list[str]] = {key: [] for key in KEYS}
        self.failed = 0
        self.stop = threading.Event()
        self._service = service

    def run(self) -> None:
        """Push until told to stop; after an error with another number."""
        number = 0
        with cluster(self._service) as client:
            while not self.stop.is_set():
                number += 1
                key = KEYS[number % len(KEYS)]
                try:
                    client.rpush(key, number)
                except redis.RedisError:
                    self.failed += 1
                    sleep(0.01)
                else:
                    self.pushed[key].append(str(number))

    @property
    def acknowledged(self) -> int:
        """How many pushes were acknowledged."""
        return sum(map(len, self.pushed.values()))


def test_a_process_that_is_killed_comes_back_and_nothing_is_lost(service: Service) -> None:
    """SIGKILL to one process under load: the others go on, it is started again, each push is there once at most.

    All that was acknowledged is there, in its order; redis-cli -c finds it from either port.
    """
    load = Load(service)
    load.start()
    wait_until(lambda: load.acknowledged > 200, "the load to begin")
    killed = service.kill_process(1)
    wait_until(lambda: service.processes[1]["pid"] not in (None, killed), "another process")
    service.wait_until_ready()
    again = load.acknowledged
    wait_until(lambda: load.acknowledged > again + 200, "the load to go on")
    load.stop.set()
    load.join()
    with cluster(service) as client:
        lists = {key: client.lrange(key, 0, -1) for key in KEYS}
    first = [
        run_program(["redis-cli", "-c", "-p", str(service.port + 1), "LINDEX", key, "0"]).strip() for key in KEYS[:4]
    ]
    starts = [process["starts"] for process in service.processes]
    assert 0 == service.terminate()
    service.wait_for_end()

    assert [1, 2] == starts
    assert load.failed > 0
    for key, numbers in lists.items():
        assert len(set(numbers)) == len(numbers)
        acknowledged = set(load.pushed[key])
        assert load.pushed[key] == [number for number in numbers if number in acknowledged]
    assert [lists[key][0] for key in KEYS[:4]] == first
    (ended,) = (line for line in service.seen if line["event"] == "process_ended")
    assert (1, "it was ended by SIGKILL") == (ended["process"], ended["reason"])
    assert [] == service.lives


def test_one_address_answers_for_all(shared: Service) -> None:
    """`/metrics`, `/status` and `/readyz` of one address have all partitions, and verbs read one directory."""
    with cluster(shared) as client:
        for key in KEYS:
            client.set(key, "v")
        sizes = client.dbsize(target_nodes=redis.RedisCluster.PRIMARIES)
    ready, status, metrics = (get(shared, path) for path in ("/readyz", "/status", "/metrics"))
    families = {each.name: each.samples for each in text_string_to_metric_families(metrics.text)}
    owned = {
        (sample.labels["process"], sample.labels["partition"]): sample.value
        for sample in families["slotlog_next_offset"]
    }
    found = {succeed("query", "--data", shared.data, "GET", KEYS[0])}

    assert len(KEYS) == sizes == sum(owned.values()) == sum(each["keys"] for each in status.json["partitions"])
    assert {("0", "0"), ("0", "1"), ("1", "2"), ("1", "3")} == set(owned)
    assert 1 == len(families["slotlog_disk_free_bytes"])
    assert [1, 1] == [sample.value for sample in families["slotlog_ready"]]
    assert list(range(PARTITIONS)) == [each["partition"] for each in ready.json["partitions"]]
    assert [[0, 1], [2, 3]] == [each["partitions"] for each in status.json["processes"]]
    assert status.json["ready"]
    assert 200 == get(shared, "/livez").status
    assert {'"v"\n'} == found


def test_messages_reach_the_clients_of_all_processes(shared: Service) -> None:
    """What is published at one port is heard at the other."""
    with redis.Redis(port=shared.port) as publisher, redis.Redis(port=shared.port + 1) as other:
        heard = other.pubsub()
        heard.subscribe("news")
        heard.get_message(timeout=60)
        publisher.publish("news", "one")
        message: Any = heard.get_message(timeout=60)
        heard.close()

    assert b"one" == message["data"]


def test_shutdown_at_one_process_ends_all(service: Service) -> None:
    """SHUTDOWN, sent to any port, ends the service as SIGTERM does, and nobody is started again."""
    with redis.Redis(port=service.port + 1) as client:
        client.shutdown()
    assert 0 == service.exit_code()
    service.wait_for_end()

    assert [] == service.lives
    assert 2 == sum(line["event"] == "process_started" for line in service.seen)


def test_processes_end_with_the_service_that_is_killed(service: Service, tmp_path: Path) -> None:
    """SIGKILL to the service ends its processes, so that it can be started again on the same ports and data."""
    with cluster(service) as client:
        client.set("k", "v")
    service.kill()
    wait_until(lambda: service.lives == [], "the processes to end")
    again = ["--resp", f"127.0.0.1:{service.port}"]
    with Service(tmp_path / "data", again) as second:
        second.wait_until_ready()
        second.port = service.port
        with cluster(second) as client:
            value = client.get("k")
        assert 0 == second.terminate()

    assert "v" == value


def test_a_process_that_cannot_start_ends_all(tmp_path: Path) -> None:
    """Where a process refuses to start the service ends with what that process says, as one process does."""
    port = free_row(3)
    with Service(tmp_path / "first", ["--resp", f"127.0.0.1:{port + 1}"]) as first:
        first.wait_until_ready()
        with Service(tmp_path / "second", ["--resp", f"127.0.0.1:{port}"]) as second:
            code = second.exit_code()
            second.wait_for_end()
        assert 0 == first.terminate()

    assert 1 == code
    assert [] == second.lives
    text = second.seen[-1]["text"]
    assert text.startswith(f"slotlog: --resp 127.0.0.1:{port + 1} cannot be served: ")


def test_the_page_shows_the_history_of_any_key(shared: Service) -> None:
    """A key of either process has its line of time at the one address; who comes by another name gets none."""
    with cluster(shared) as client:
        for key in ("line:0", "line:2"):
            client.set(key, "before")
            client.set(key, "after")
    address = address_of(shared)
    found = [post(address, {"key": key}) for key in ("line:0", "line:2")]
    foreign = post(address, {"key": "line:0"}, Host="evil.example")

    assert {0, 1} == {partition_of(slot(key), PARTITIONS) // 2 for key in (b"line:0", b"line:2")}
    for key, (status, document) in zip(("line:0", "line:2"), found, strict=True):
        assert (200, [f"SET {key} before", f"SET {key} after"]) == (status, [e["command"] for e in document["events"]])
        assert ("before", "after") == tuple(document["events"][1][when]["value"] for when in ("before", "after"))
    assert (403, True) == (foreign[0], get(shared, "/status").json["history"])


def test_histories_need_the_password_that_redis_needs(tmp_path: Path) -> None:
    """As one process alone, several show no values where Redis clients need a password and the page has none."""
    with Service(tmp_path / "data", environment={"SLOTLOG_REDIS__PASSWORD": "secret"}) as service:
        service.wait_until_ready()
        status, document = post(address_of(service), {"key": "a"})
        shown = get(service, "/status").json["history"]

    assert (403, False) == (status, shown)
    assert "set SLOTLOG_HTTP_PASSWORD" in document


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """More processes than partitions are refused before anything is made; the answer says what to do."""
    result = run("serve", "--data", tmp_path / "data", "--processes", "2", "--json")

    assert 1 == result.exit_code
    told = json.loads(result.stdout)
    assert "ConfigError" == told["kind"]
    assert told["error"].startswith("--processes 2 needs as many partitions, and this service has 1")
    assert not (tmp_path / "data").exists()
