"""`slotlog check` as an operator runs it: on a good state, a damaged one, beside a service that writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.layouts.layout import Kind
from engine.store.rocks import RocksStore
from engine.store.store import SYSTEM_CF, Changes
from engine.values.encoding import pack_u64
from ops import progress
from slotlog.shared.slots import slot
from tests.faults.service import ServiceProcess
from tests.layouts import column_families, layout_of
from tests.ops.verbs import run, succeed, wait_for_offset, write_lines

PARTITIONS = 2
KEYS = 3000
LAYOUT = layout_of(1)
FOREIGN = next(b"%d" % number for number in range(99) if slot(b"%d" % number) < 8192)

EVENTS = 20_000
EVENT_KINDS: list[Callable[[int], list[Any]]] = [
    lambda n: ["HSET", f"h:{n % 50}", f"f{n}", "v"],
    lambda n: ["ZADD", "board", n * 7 % 1000, f"m{n % 1500}"],
    lambda n: ["SET", f"s:{n % 300}", n, "PX", 5000 + n],
    lambda n: ["RPUSH", f"l:{n % 20}", n],
    lambda n: ["LPOP", f"l:{n % 20}"],
    lambda n: ["HSETEX", f"h:{n % 50}", "EX", 100, "FIELDS", 1, f"f{n}", "v"],
    lambda n: ["DEL", f"h:{n % 50}"] if n % 9 == 0 else ["SADD", f"e:{n % 40}", n],
    lambda n: ["SETRANGE", f"large:{n % 3}", 130_000 + n, "x"],
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state of two partitions with keys in both, made by a replay."""
    events = [{"cmd": "HSET", "args": [f"user:{number}", "name", "x" * 100]} for number in range(KEYS)]
    options = ["--data", tmp_path / "made", "--partitions", PARTITIONS]
    succeed("produce", write_lines(tmp_path / "events", events), *options)
    succeed("replay", *options, "--to", tmp_path / "data")
    return tmp_path / "data"


def put(data: Path, column_family: str, key: bytes, value: bytes | None) -> None:
    """Write one record into the state of partition 1, or delete it."""
    store = RocksStore(data / "1", column_families())
    changes = Changes()
    changes.of(column_family)[key] = value
    store.write(changes)
    store.close()


def lines(text: str) -> list[dict[str, Any]]:
    """JSON Lines, parsed."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_good_state(data: Path) -> None:
    """Exit code 0, a line for each partition; in JSON one line about all of them."""
    said = succeed("check", "--data", data).splitlines()
    (facts,) = lines(succeed("check", "--data", data, "--json"))

    assert [True, True] == [line.endswith(" keys, all is well") for line in said]
    assert (0, [], [0, 1]) == (
        facts["violations"],
        facts["missing"],
        [each["partition"] for each in facts["partitions"]],
    )
    assert KEYS == sum(each["keys"] for each in facts["partitions"])
    assert KEYS == sum(each["next_offset"] for each in facts["partitions"])


@pytest.mark.damaging
def test_a_damaged_state(data: Path) -> None:
    """Exit code 1; every violation with its partition, and what to do; in JSON where the record is."""
    key = LAYOUT.metadata_key(0, slot(FOREIGN), FOREIGN)
    put(data, LAYOUT.families[Kind.METADATA], key, b"\x81" + bytes(8))
    put(data, SYSTEM_CF, b"colour", b"red")
    plain, as_json = run("check", "--data", data), run("check", "--data", data, "--json")
    *violations, facts = lines(as_json.stdout)

    assert (1, 1) == (plain.exit_code, as_json.exit_code)
    assert "slotlog: `slotlog replay --to DIR` builds the state again from the log" == plain.stderr.splitlines()[-1]
    assert [
        "partition 1: unreadable: the record b'colour' with b'red' is none that there is",
        f"partition 1: place: {FOREIGN!r} of database 0 is of partition 0, not 1",
        "partition 1: counts: 1 key of type string in stored database 0, counted 0",
    ] == plain.stdout.splitlines()[1:-1]
    assert plain.stdout.endswith(" keys, 3 violations\n")
    assert ["unreadable", "place", "counts"] == [violation["kind"] for violation in violations]
    assert (1, "metadata", key.hex()) == tuple(violations[1][name] for name in ("partition", "column_family", "record"))
    assert (3, [0, 3]) == (facts["violations"], [each["violations"] for each in facts["partitions"]])
    assert 0 == run("check", "--data", data, "--own", 0).exit_code


@pytest.mark.damaging
def test_a_state_without_a_position(data: Path) -> None:
    """What no other verb opens is looked through all the same."""
    put(data, SYSTEM_CF, b"next_offset", None)
    put(data, SYSTEM_CF, b"count/0/2", pack_u64(1))
    result = run("check", "--data", data, "--own", 1)

    assert 1 == run("digest", "--data", data).exit_code
    assert (1, 3) == (result.exit_code, len(result.stdout.splitlines()))
    assert "partition 1: unreadable: there is no number next_offset\n" in result.stdout
    assert "of type hash in stored database 0, counted 1\n" in result.stdout


@pytest.mark.damaging
def test_a_partition_that_cannot_be_opened(data: Path) -> None:
    """It is named at the end, and keeps nothing else from being looked at."""
    (data / "0" / "CURRENT").write_text("nothing\n")
    plain, as_json = run("check", "--data", data), run("check", "--data", data, "--json")
    (facts,) = lines(as_json.stdout)

    assert (1, 1) == (plain.exit_code, as_json.exit_code)
    assert plain.stdout.startswith("partition 1: next offset ")
    assert plain.stderr.splitlines()[-1].startswith("slotlog: partition 0 cannot be read to its end: ")
    assert ([1], [0]) == tuple([each["partition"] for each in facts[name]] for name in ("partitions", "damaged"))


@pytest.mark.damaging
def test_damage_on_the_disk(data: Path) -> None:
    """A table file with other bytes than were written is a violation, and keeps nothing else from being looked at."""
    put(data, SYSTEM_CF, b"colour", b"red")
    largest = max((data / "1").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[1000:1100] = bytes(100)
    largest.write_bytes(content)
    result = run("check", "--data", data, "--own", 1)

    assert 1 == result.exit_code
    assert "partition 1: unreadable: the record b'colour'" in result.stdout
    assert "partition 1: unreadable: some records cannot be read at all: " in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--topic", "bills"), "its topic is slotlog, not bills"),
        (("--partitions", 4), "its topic has 2 partitions, not 4"),
        (("--own", 1, "--data", "nowhere"), "nowhere has no state of partition 1"),
    ],
)
def test_what_cannot_be_looked_at(words: tuple[object, ...], said: str, data: Path) -> None:
    """A state of something else, or none, is exit code 1 with the reason, as for the other verbs."""
    result = run("check", "--data", data, "--partitions", PARTITIONS, *words)

    assert (1, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


def test_repair_says_replay(data: Path) -> None:
    """Nothing is mended by guessing: wrong usage, which names the verb that rebuilds."""
    result = run("check", "--data", data, "--repair")

    assert (2, "") == (result.exit_code, result.stdout)
    assert "slotlog replay" in " ".join(result.stderr.split())


def test_progress_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no terminal, log lines on stderr say how far it is."""
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0)
    told = lines("".join(run("check", "--data", data, "--own", 1).stderr.splitlines(keepends=True)[:-1]))

    assert ("check", 1000, "keys") == tuple(told[0][name] for name in ("event", "done", "unit"))
    assert told[0]["total"] > 1000


def test_beside_a_service_that_writes(tmp_path: Path) -> None:
    """While a service applies events, each look finds a whole state, and none that is behind the one before."""
    options = ["--data", str(tmp_path)]
    events = write_lines(tmp_path / "events", map(_event, range(EVENTS)))
    reached: list[int] = []
    with ServiceProcess([*options, "--http", "127.0.0.1:0"]) as service:
        service.wait_for("started")
        succeed("produce", write_lines(tmp_path / "first", [_event(0)]), *options)
        wait_for_offset(service, 1)
        producer = subprocess.Popen([sys.executable, "-m", "ops.cli", "produce", str(events), *options])
        while producer.poll() is None:
            (facts,) = lines(succeed("check", *options, "--json"))
            reached.append(facts["partitions"][0]["next_offset"])
        wait_for_offset(service, 1 + EVENTS)
        assert (0, 0) == (producer.returncode, service.terminate())

    assert sorted(reached) == reached
    assert succeed("check", *options).startswith(f"partition 0: next offset {1 + EVENTS}, ")


def _event(number: int) -> dict[str, Any]:
    """Collections that grow, die and come again, with times to live."""
    name, *args = EVENT_KINDS[number % len(EVENT_KINDS)](number)
    return {"cmd": name, "args": args}
