"""Verbs on a state that is behind its log refuse or add a note."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ops.state.opening.directories import partition_path
from ops.state.reports.standing import Ends, Standing, is_applied
from slotlog.events import encode
from slotlog.log import Entry, open_log
from slotlog.shared.slots import partition_of, slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import run, succeed, wait_for_offset

PARTITIONS = 2
KEYS = [next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), PARTITIONS) == p) for p in range(PARTITIONS)]
BEHIND = "1 of 2 offsets behind the log, and no service applies it here"


async def append(data: Path, value: str) -> None:
    """Set the key of each partition."""
    log = open_log(f"sqlite:///{data / 'log.sqlite3'}", topic="slotlog", partitions=PARTITIONS)
    await log.start()
    entries = [Entry(at, slot(key).to_bytes(2, "big"), encode("SET", [key, value])) for at, key in enumerate(KEYS)]
    await log.append(entries)
    await log.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a log of one record in each partition, and the state of all of them."""
    data = tmp_path / "data"
    asyncio.run(append(data, "old"))
    log = f"sqlite:///{data / 'log.sqlite3'}"
    succeed("replay", "--log", log, "--partitions", PARTITIONS, "--to", tmp_path / "to")
    for partition in range(PARTITIONS):
        partition_path(tmp_path / "to", partition).rename(partition_path(data, partition))
    return data


def test_a_state_that_is_up_to_its_log(data: Path) -> None:
    """Nothing is said of it, with or without a service."""
    results = [run(*words, "--data", data) for words in (("query", "GET", KEYS[0].decode()), ("dump",), ("check",))]
    facts = json.loads(succeed("digest", "--data", data, "--json"))["partitions"]

    assert [(0, "")] * 3 == [(result.exit_code, result.stderr) for result in results]
    assert [(1, 0, False)] * 2 == [(each["log_end_offset"], each["behind"], each["owned"]) for each in facts]


def test_a_state_that_nobody_applies_is_not_asked(data: Path) -> None:
    """A query of a state that the log has left behind is refused, with what to do; --stale reads it, and says so."""
    asyncio.run(append(data, "new"))
    refused = run("query", "--data", data, "GET", KEYS[1].decode())
    as_json = run("query", "--data", data, "--json", "DBSIZE")
    read = run("query", "--data", data, "--stale", "GET", KEYS[1].decode())

    assert (1, "") == (refused.exit_code, refused.stdout)
    assert refused.stderr.startswith(f"slotlog: partition 1: {BEHIND}. Ask the service that applies it, or start one")
    assert (1, "ConfigError") == (as_json.exit_code, json.loads(as_json.stdout)["kind"])
    assert (0, '"old"\n', f"slotlog: partition 1: {BEHIND}\n") == (read.exit_code, read.stdout, read.stderr)


def test_other_verbs_say_it(data: Path) -> None:
    """`digest`, `dump` and `check` read it all the same, and say of each partition how far it is behind."""
    asyncio.run(append(data, "new"))
    digest, dump, check = (run(verb, "--data", data) for verb in ("digest", "dump", "check"))
    facts = [json.loads(succeed(verb, "--data", data, "--json")) for verb in ("digest", "check")]

    notes = "".join(f"slotlog: partition {partition}: {BEHIND}\n" for partition in range(PARTITIONS))
    assert [(0, notes), (0, notes), (0, "")] == [(each.exit_code, each.stderr) for each in (digest, dump, check)]
    assert [f"next offset 1, 1 key, all is well; {BEHIND}"] * 2 == [
        line.partition(": ")[2] for line in check.stdout.splitlines()
    ]
    told = [(each["log_end_offset"], each["behind"], each["owned"]) for fact in facts for each in fact["partitions"]]
    assert [(2, 1, False)] * 4 == told


def test_a_state_that_a_service_applies(data: Path) -> None:
    """A service's own directory is known as one: it is read, up to the log, and nothing is said."""
    asyncio.run(append(data, "new"))
    options = ["--data", str(data), "--partitions", str(PARTITIONS), "--resp", "", "--http", "127.0.0.1:0"]
    before = is_applied(partition_path(data, 0))
    with ServiceProcess(options) as service:
        service.wait_for("started")
        wait_for_offset(service, 2, 0)
        while_applied = is_applied(partition_path(data, 0))
        read = run("query", "--data", data, "GET", KEYS[0].decode())
        owned = [each["owned"] for each in json.loads(succeed("digest", "--data", data, "--json"))["partitions"]]
        assert 0 == service.terminate()

    assert [False, True, False] == [before, while_applied, is_applied(partition_path(data, 0))]
    assert (0, '"new"\n', "", [True, True]) == (read.exit_code, read.stdout, read.stderr, owned)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("sqlite:///nowhere/log", "there is no log at nowhere/log"),
        ("kafka://127.0.0.1:1", "kafka"),
    ],
)
def test_a_log_that_is_away(log: str, said: str, data: Path) -> None:
    """Where the log cannot be asked, that is said once, and the state is read."""
    query = run("query", "--data", data, "--log", log, "GET", KEYS[0].decode())
    dump = run("dump", "--data", data, "--log", log)
    facts = json.loads(succeed("digest", "--data", data, "--log", log, "--json"))["partitions"]

    assert ((0, '"old"\n'), 2) == ((query.exit_code, query.stdout), len(dump.stdout.splitlines()))
    for result in (query, dump):
        (note,) = (line for line in result.stderr.splitlines() if line.startswith("slotlog: "))
        assert note.startswith("slotlog: how far the state is behind its log is not known: ")
        assert said in note.lower()
    assert [(None, None, False)] * 2 == [(each["log_end_offset"], each["behind"], each["owned"]) for each in facts]


def test_a_log_that_is_away_from_a_service_too(data: Path) -> None:
    """That is also said of partitions that a service applies here: nobody knows what came, or who took over.

    Not where the verb does not know which log the service has.
    """
    log = (data / "log.sqlite3").rename(data / "other.sqlite3")
    options = ["--data", str(data), "--partitions", str(PARTITIONS), "--resp", "", "--http", "127.0.0.1:0"]
    options += ["--log", f"sqlite:///{log}"]
    with ServiceProcess(options) as service:
        service.wait_for("started")
        wait_for_offset(service, 1, 0)
        verbs = (("query", "GET", KEYS[0].decode()), ("digest",), ("dump",))
        away = [run(*words, "--data", data, "--log", "kafka://127.0.0.1:1") for words in verbs]
        unnamed = [run(*words, "--data", data) for words in verbs]
        assert 0 == service.terminate()

    note = "slotlog: how far the state is behind its log is not known: Kafka at 127.0.0.1:1 cannot be reached: "
    assert [(0, note)] * 3 == [(each.exit_code, each.stderr.splitlines()[-1][: len(note)]) for each in away]
    assert [(0, "")] * 3 == [(each.exit_code, each.stderr) for each in unnamed]


@pytest.mark.parametrize("words", [("query", "GET", KEYS[0].decode()), ("dump",), ("digest",), ("check",)])
def test_what_a_client_library_says_is_a_log_line(words: tuple[str, ...], data: Path) -> None:
    """No verb prints it as it is: a program that reads stderr knows each line by its form."""
    command = [sys.executable, "-m", "ops.cli", *words, "--data", str(data), "--log", "kafka://127.0.0.1:1"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()

    assert 1 == sum(line.startswith("slotlog: ") for line in lines)
    assert [] == [line for line in lines if not line.startswith(("slotlog: ", "{"))]


def test_a_partition_that_is_not_here(data: Path) -> None:
    """A key of a partition that another worker has elsewhere is no key that is not there: the partition is named."""
    shutil.rmtree(partition_path(data, 1))
    there, elsewhere = (run("query", "--data", data, "GET", key.decode()) for key in KEYS)

    assert (0, '"old"\n') == (there.exit_code, there.stdout)
    assert (1, "") == (elsewhere.exit_code, elsewhere.stdout)
    assert f"{data} has no state of partition 1, but of 0: its owner has another --data" in elsewhere.stderr


def test_a_log_that_ends_before_the_state() -> None:
    """A log that is shorter than what was applied is another one: that is no lag, and nothing to answer from."""
    shorter, owned = Standing(0, 9, 4, owned=False), Standing(0, 9, 12, owned=True)
    unknown = Standing(0, 9, Ends({}, "away").offsets.get(0), owned=False)
    gone_on = Standing(0, 9, 4, owned=True)

    assert "stands at offset 9, and the log ends at 4: it is another one, or was cut" == shorter.text()
    assert "3 of 12 offsets behind the log, a service is applying it" == owned.text()
    assert "" == gone_on.text()
    assert [(0, True), (3, False), (None, False)] == [
        (each.behind, each.is_stale) for each in (shorter, owned, unknown)
    ]


def test_verbs_fail_for_a_log_that_ends_before_the_state(data: Path, tmp_path: Path) -> None:
    """`check` and `replay` exit with 1 where the log is an older copy; a replay until an offset asked for less."""
    short = f"sqlite:///{tmp_path / 'short.sqlite3'}"
    shutil.copy(data / "log.sqlite3", tmp_path / "short.sqlite3")
    asyncio.run(append(data, "new"))
    further = tmp_path / "further"
    succeed("replay", "--data", data, "--to", further)
    check = run("check", "--data", further, "--log", short)
    replay = run("replay", "--data", further, "--log", short, "--to", tmp_path / "short")
    until = run("replay", "--data", further, "--log", short, "--to", tmp_path / "until", "--until", 1)

    cut = "stands at offset 2, and the log ends at 1: it is another one, or was cut"
    assert (1, [f"next offset 2, 1 key, as it was written; {cut}"] * PARTITIONS) == (
        check.exit_code,
        [line.partition(": ")[2] for line in check.stdout.splitlines()],
    )
    said = "the log ends at offset 1, but --data has applied everything before 2"
    assert [(1, PARTITIONS), (0, 0)] == [(each.exit_code, each.stderr.count(said)) for each in (replay, until)]


def test_space_and_clean_say_how_far_it_is(data: Path) -> None:
    """What takes room, and what was cleaned up, is of the state as far as it has come: both say that it is behind."""
    before = run("space", "--data", data)
    asyncio.run(append(data, "new"))
    results = [run(*words, "--data", data) for words in (("space",), ("clean", "--now"))]
    facts = [json.loads(succeed(*words, "--data", data, "--json")) for words in (("space",), ("clean", "--now"))]

    assert (0, "") == (before.exit_code, before.stderr)
    said = "".join(f"slotlog: partition {partition}: {BEHIND}\n" for partition in range(PARTITIONS))
    assert [(0, said)] * 2 == [(result.exit_code, result.stderr) for result in results]
    for each in facts:
        standings = [(at["log_end_offset"], at["behind"], at["owned"]) for at in each["partitions"]]
        assert [(2, 1, False)] * PARTITIONS == standings
