"""A record that the engine cannot apply stops its partition alone, until an operator decides to go past it.

`RULES` with a number that this engine does not know is such a record: it must not guess what those rules are.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.tables.system import RULES
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric, run, succeed, wait_for_offset, wait_until

KEYS = [next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), 2) == partition) for partition in (0, 1)]
STOPS_AT = 3
END = 6


class Stopped(NamedTuple):
    """A log with a record in partition 0 that stops it, and the options that name it."""

    data: Path
    options: list[str]


async def _append(data: Path) -> None:
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="slotlog", partitions=2)
    await log.start()
    for partition, key in enumerate(KEYS):
        entries = [Entry(partition, slot(key).to_bytes(2, "big"), encode("INCR", [key]))] * END
        if partition == 0:
            entries[STOPS_AT] = Entry(partition, None, encode("RULES", [RULES + 1]))
        await log.append(entries)
    await log.close()


@pytest.fixture
def stopped(tmp_path: Path) -> Stopped:
    """Six records in each of two partitions; the fourth of partition 0 cannot be applied."""
    data = tmp_path / "data"
    asyncio.run(_append(data))
    return Stopped(data, ["--data", str(data), "--partitions", "2"])


def test_partition_stops_and_goes_on_when_told(stopped: Stopped) -> None:
    """One partition stops and /readyz says why, the other goes on; after `skip` the service goes on by itself."""
    with ServiceProcess([*stopped.options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, END, 1)
        wait_until(lambda: get(service, "/readyz").json["partitions"][0]["condition"] == "stopped", "it to stop")
        ready = get(service, "/readyz")
        running = metric(service, "slotlog_partition_running")
        live = get(service, "/livez")
        before = succeed("query", *stopped.options, "--stale", "GET", KEYS[0].decode())

        # The service tries again now and then, and holds the state for that moment.
        wait_until(lambda: "cannot be skipped" in run("skip", 0, END, *stopped.options).stderr, "a refusal")
        wait_until(lambda: run("skip", 0, STOPS_AT, *stopped.options).exit_code == 0, "the decision to be kept")
        wait_for_offset(service, END, 0)
        wait_until(lambda: get(service, "/readyz").status == 200, "it to be ready")
        skipped = metric(service, "slotlog_events_skipped_total")
        assert 0 == service.terminate()

    first, second = ready.json["partitions"]
    assert (503, 200) == (ready.status, live.status)
    assert ("stopped", False) == (first["condition"], first["ready"])
    assert first["reason"].startswith(f"offset {STOPS_AT} (RULES) cannot be applied: ")
    assert first["reason"].endswith(
        f"the log asks for rules {RULES + 1}, this slotlog knows {RULES}; use a newer release"
    )
    assert ("running", "") == (second["condition"], second["reason"])
    assert {'partition="0"': 0.0, 'partition="1"': 1.0} == running
    assert f'"{STOPS_AT}"\n' == before
    assert {'partition="0"': 1.0, 'partition="1"': 0.0} == skipped
    assert f'"{END - 1}"\n' == succeed("query", *stopped.options, "GET", KEYS[0].decode())


def test_replay_takes_the_decision_over(stopped: Stopped, tmp_path: Path) -> None:
    """A replay stops at the record too, unless the live state or --skip says to go past it; it says what it skipped."""
    with ServiceProcess([*stopped.options, "--http", ""]) as service:
        service.wait_for("started")
        while service.wait_for("partition")["condition"] != "stopped":
            pass
        assert 0 == service.terminate()
    assert {"partition": 0, "offset": STOPS_AT, "last_offset": STOPS_AT, "skipped": True} == json.loads(
        succeed("skip", 0, STOPS_AT, *stopped.options, "--json")
    )
    with ServiceProcess([*stopped.options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        wait_for_offset(service, END, 0)
        assert 0 == service.terminate()

    log = ["--log", f"sqlite:///{stopped.data / 'log.sqlite3'}", "--partitions", 2, "--data", tmp_path / "absent"]
    without = run("replay", *log, "--to", tmp_path / "without")
    told = json.loads(succeed("replay", *log, "--to", tmp_path / "told", "--skip", f"0:{STOPS_AT}", "--json"))
    carried = json.loads(succeed("replay", *stopped.options, "--to", tmp_path / "carried", "--json"))
    said = succeed("replay", *stopped.options, "--to", tmp_path / "said").splitlines()

    assert 1 == without.exit_code
    assert f"partition 0 stopped: offset {STOPS_AT} (RULES) cannot be applied" in without.stderr
    for replayed in (told, carried):
        assert [[str(STOPS_AT)], []] == [result["skips"] for result in replayed["partitions"]]
        assert [END, END] == [result["next_offset"] for result in replayed["partitions"]]
    assert (told["digest"], None) == (carried["live_digest"], told["live_digest"])
    assert f"  skipped   offset {STOPS_AT}" == said[1]
    raw = succeed("dump", *stopped.options, "--raw")
    assert [raw, raw] == [succeed("dump", "--data", tmp_path / name, "--raw") for name in ("told", "carried")]


def test_digest_lists_what_was_skipped(stopped: Stopped) -> None:
    """A skip shows in the digest's output from the decision on, before anything was applied past it."""
    with ServiceProcess([*stopped.options, "--http", ""]) as service:
        service.wait_for("started")
        while service.wait_for("partition")["condition"] != "stopped":
            pass
        assert 0 == service.terminate()
    before = succeed("digest", *stopped.options)
    succeed("skip", 0, STOPS_AT, "--data", stopped.data)
    after = json.loads(succeed("digest", *stopped.options, "--json"))

    assert "skipped" not in before
    assert f"  skipped   offset {STOPS_AT}" in succeed("digest", *stopped.options).splitlines()
    assert [[str(STOPS_AT)], []] == [partition["skips"] for partition in after["partitions"]]


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        ("3", "is not PARTITION:OFFSET"),
        ("0:3-2", "is not PARTITION:OFFSET or PARTITION:FIRST-LAST"),
        (f"0:3-{END}", f"--skip 0:3-{END}: the replay ends before offset {END}"),
        ("2:3", "partition 2 is not one of those to rebuild"),
        (f"0:{END}", f"the replay ends before offset {END}"),
    ],
)
def test_skip_of_nothing_is_refused(skip: str, said: str, stopped: Stopped, tmp_path: Path) -> None:
    """--skip must name a record that the replay meets; nothing is made otherwise."""
    result = run("replay", *stopped.options, "--to", tmp_path / "to", "--skip", skip)

    assert (1, False) == (result.exit_code, (tmp_path / "to").exists())
    assert said in result.stderr
