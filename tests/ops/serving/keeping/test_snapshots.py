"""A running service takes snapshots by schedule, and when it is asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.slots import partition_of, slot
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, run, succeed, wait_for_offset, wait_until

TOPIC = "t"
_UNDER_LOAD = 3
_ROUNDS_MAX = 300


async def append(url: str, first: int, count: int, partitions: int = 1, topic: str = TOPIC) -> None:
    """Write so many hashes' fields into each partition, whatever the slots of their keys."""
    async with opened_log(url, topic, partitions) as log:
        for partition in range(partitions):
            key = next(b"%d" % n for n in range(999) if partition_of(slot(b"%d" % n), partitions) == partition)
            events = [encode("HSET", [key, f"f{n}", "v" * 50]) for n in range(first, first + count)]
            await log.append([Entry(partition, None, event) for event in events])


async def append_mixed(url: str, number: int) -> None:
    """Writes of many kinds, some of which expire within the test or delete what others wrote."""
    async with opened_log(url, TOPIC, 1) as log:
        for n in range(number * 100, number * 100 + 100):
            events = (
                encode("SET", [b"s%d" % (n % 50), b"v%d" % n, "PX", 50 + n % 500]),
                encode("LPUSH", [b"l%d" % (n % 9), b"%d" % n]),
                encode("ZINCRBY", [b"z", n % 7, b"m%d" % (n % 30)]),
                encode("SPOP", [b"h%d" % (n % 3)]) if n % 5 else encode("SADD", [b"h%d" % (n % 3), n, n + 1]),
                encode("DEL", [b"l%d" % (n % 9)]) if not n % 40 else encode("APPEND", [b"a", b"x"]),
            )
            await log.append([Entry(0, None, event) for event in events])


def listed(store: Path, data: Path, topic: str = TOPIC) -> list[dict[str, Any]]:
    """The snapshots that there are."""
    found: list[dict[str, Any]] = json.loads(
        succeed("snapshots", "list", "--from", store, "--data", data, "--topic", topic, "--json")
    )
    return found


def is_verified(snapshots: list[dict[str, Any]], next_offset: int) -> bool:
    """Whether there is one of this position."""
    return any(each["next_offset"] == next_offset and each["verified"] for each in snapshots)


def options(tmp_path: Path, *more: str) -> list[str]:
    """Of a service on an embedded log."""
    log = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    return ["--data", str(tmp_path / "data"), "--log", log, "--topic", TOPIC, "--http", "127.0.0.1:0", *more]


def digest(data: Path) -> str:
    """Of a state."""
    return str(json.loads(succeed("digest", "--data", data, "--json"))["digest"])


def test_a_service_is_asked(tmp_path: Path) -> None:
    """The verb gets a snapshot of each partition from the service that runs, which goes on; nothing is left over."""
    data, store = tmp_path / "data", tmp_path / "store"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    asyncio.run(append(url, 0, 100, 2))
    with ServiceProcess(options(tmp_path, "--partitions", "2")) as service:
        service.wait_for("started")
        for partition in (0, 1):
            wait_for_offset(service, 100, partition)
        taken = json.loads(succeed("snapshot", "--data", data, "--to", store, "--json"))["snapshots"]
        asyncio.run(append(url, 100, 10, 2))
        for partition in (0, 1):
            wait_for_offset(service, 110, partition)
        again = json.loads(succeed("snapshot", "--data", data, "--to", store, "--json"))["snapshots"]
        refused = run("snapshot", "--data", data, "--to", tmp_path / "log.sqlite3" / "file")
        counted = metric(service, "slotlog_snapshots_taken_total")
        assert 0 == service.terminate()
    succeed("restore", "--from", store, "--to", tmp_path / "restored", "--topic", TOPIC)

    assert {'partition="0"': 2.0, 'partition="1"': 2.0} == counted
    assert [100, 100, 110, 110] == [each["next_offset"] for each in (*taken, *again)]
    assert [True] * 4 == [each["pause_seconds"] > 0 for each in (*taken, *again)]
    assert [True] * 4 == [each["verified"] for each in listed(store, data)]
    assert (1, True) == (refused.exit_code, "cannot be used for snapshots" in refused.stderr)
    assert digest(data) == digest(tmp_path / "restored")
    assert not (data / "scratch").exists()
    assert [] == list((data / "requests").iterdir())
    assert [] == list(data.rglob("LOG.old.*"))  # nobody has tried to open what the service has open


@pytest.mark.parametrize(("name", "value"), [("EVENTS", "50"), ("BYTES", "2500"), ("SECONDS", "0.5")])
def test_a_schedule(name: str, value: str, tmp_path: Path) -> None:
    """After so many events, bytes or seconds one is taken; where nothing came since, none; and a restart knows both."""
    data, store = tmp_path / "data", tmp_path / "store"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    variables = {"URL": str(store), name: value, "KEEP": "9"}
    variables = {f"SLOTLOG_SNAPSHOTS__{name}": value for name, value in variables.items()}
    asyncio.run(append(url, 0, 100))
    with ServiceProcess(options(tmp_path), variables) as service:
        service.wait_for("started")
        wait_until(lambda: is_verified(listed(store, data), 100), "the first snapshot")
        asyncio.run(append(url, 100, 100))
        wait_until(lambda: is_verified(listed(store, data), 200), "the second snapshot")
        before = listed(store, data)
        shown = {'partition="0"': 200.0}
        wait_until(lambda: metric(service, "slotlog_snapshot_next_offset") == shown, "the metric of its position")
        assert 0 == service.terminate()
    with ServiceProcess(options(tmp_path), variables) as service:
        service.wait_for("started")
        asyncio.run(append(url, 200, 1))
        wait_for_offset(service, 201)
        asyncio.run(append(url, 201, 99))
        wait_until(lambda: is_verified(listed(store, data), 300), "the third snapshot")
        assert 0 == service.terminate()

    assert before == listed(store, data)[: len(before)]
    assert [True] * len(before) == [each["verified"] for each in before]
    offsets = [each["next_offset"] for each in listed(store, data)]
    assert sorted(set(offsets)) == offsets


@pytest.mark.timeout(300)
def test_snapshots_under_load_are_what_a_replay_builds(tmp_path: Path) -> None:
    """Whatever is written meanwhile, a snapshot is the state at its position: a replay up to there has its digest."""
    data, store = tmp_path / "data", tmp_path / "store"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    variables = {"URL": str(store), "EVENTS": "300", "KEEP": "99"}
    taken: list[dict[str, Any]] = []
    with ServiceProcess(options(tmp_path), {f"SLOTLOG_SNAPSHOTS__{k}": v for k, v in variables.items()}) as service:
        service.wait_for("started")
        for number in range(_ROUNDS_MAX):
            asyncio.run(append_mixed(url, number))
            taken = [each for each in listed(store, data) if each["verified"]]
            if len(taken) >= _UNDER_LOAD:
                break
        assert 0 == service.terminate(10)

    assert _UNDER_LOAD <= len(taken)
    for each in taken[:_UNDER_LOAD]:
        words = ("--data", data, "--log", url, "--topic", TOPIC, "--until", each["next_offset"])
        built = json.loads(succeed("replay", *words, "--to", tmp_path / str(each["next_offset"]), "--json"))
        assert each["digest"] == built["digest"]


@pytest.mark.timeout(300)
def test_a_log_that_was_cut_behind_a_snapshot(tmp_path: Path) -> None:
    """A cut up to a verified snapshot is no trouble, here and after a restart; without the snapshot it is."""
    data, store = tmp_path / "data", tmp_path / "store"
    variables = {"SLOTLOG_SNAPSHOTS__URL": str(store), "SLOTLOG_IDENTITY_CHECK_SECONDS": "0.1"}
    asyncio.run(append(f"sqlite:///{tmp_path / 'log.sqlite3'}", 0, 100))

    def warnings(service: ServiceProcess, offset: float) -> list[str]:
        begin = {'partition="0"': 99.0}
        wait_until(lambda: metric(service, "slotlog_log_begin_offset") == begin, "the metric of the log's begin")
        learnt = {'partition="0"': offset}
        wait_until(lambda: metric(service, "slotlog_snapshot_next_offset") == learnt, "the metric of the snapshot")
        found: list[str] = get(service, "/readyz").json["log"]["warnings"]
        return found

    with ServiceProcess(options(tmp_path), variables) as service:
        service.wait_for("started")
        wait_for_offset(service, 100)
        succeed("snapshot", "--data", data, "--to", store)
        succeed("trim", "--data", data, "--from", store, "--topic", TOPIC, "--log", options(tmp_path)[3])
        after_the_cut = warnings(service, 100)
        assert 0 == service.terminate()
    with ServiceProcess(options(tmp_path), variables) as service:
        service.wait_for("started")
        after_a_start = warnings(service, 100)
        assert 0 == service.terminate()
    for each in listed(store, data):
        succeed("snapshots", "delete", each["id"], "--from", store, "--data", data, "--topic", TOPIC)
    with ServiceProcess(options(tmp_path), variables) as service:
        service.wait_for("started")
        wait_until(lambda: bool(warnings(service, 0)), "the warning")
        without = warnings(service, 0)
        assert 0 == service.terminate()

    assert ([], []) == (after_the_cut, after_a_start)
    lost = "no verified snapshot is known that reaches it: the state cannot be built again"
    assert [f"partition 0 begins at offset 99, and {lost}"] == without


def test_a_store_that_is_away_holds_nobody_up(tmp_path: Path) -> None:
    """A snapshot that fails is said once, with the reason; events are applied all the while."""
    blocked = tmp_path / "blocked"
    blocked.write_text("not a directory")
    variables = {"SLOTLOG_SNAPSHOTS__URL": str(blocked / "store"), "SLOTLOG_SNAPSHOTS__EVENTS": "1"}
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    asyncio.run(append(url, 0, 10))
    with ServiceProcess(options(tmp_path)) as service:  # without a state it would wait for a snapshot
        service.wait_for("started")
        wait_for_offset(service, 10)
        assert 0 == service.terminate()
    with ServiceProcess(options(tmp_path), variables) as service:
        failed = service.wait_for("snapshot_failed")
        asyncio.run(append(url, 10, 10))
        wait_for_offset(service, 20)
        failing = metric(service, "slotlog_snapshots_failing")
        assert 0 == service.terminate()

    assert {'partition="0"': 1.0} == failing
    assert "cannot be used for snapshots: Not a directory" in failed["error"]
    assert not (tmp_path / "data" / "scratch").exists()
