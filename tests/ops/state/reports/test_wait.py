"""`slotlog wait` ends when the state has applied the log, or says at its timeout what is missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from slotlog.events import encode
from tests.faults.service import ServiceProcess
from tests.faults.workers import new_topic
from tests.ops.verbs import run, succeed, write_lines

INCR = {"cmd": "INCR", "args": ["n"]}
PATIENCE_SECONDS = 60


def test_waits_for_a_service_that_makes_log_and_state(tmp_path: Path) -> None:
    """A wait that began before there was a log ends when a service has applied what somebody appended."""
    data = tmp_path / "data"
    waiting = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "wait", "--data", data, "--timeout", str(PATIENCE_SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
    )
    succeed("produce", write_lines(tmp_path / "events", [INCR, INCR]), "--data", data)
    with ServiceProcess(["--data", str(data), "--http", ""]) as service:
        printed, _ = waiting.communicate(timeout=PATIENCE_SECONDS)
        assert 0 == service.terminate()

    assert 0 == waiting.returncode
    assert printed in {f"partition 0: {n} of {n} offset{'s' * (n > 1)} applied\n" for n in (0, 2)}
    assert "partition 0: 2 of 2 offsets applied\n" == succeed("wait", "--data", data, "--timeout", 0)


def test_says_what_is_missing(tmp_path: Path) -> None:
    """After the timeout each partition that is not up to the log is named with the reason, with exit code 1."""
    data, to = tmp_path / "data", tmp_path / "to"
    nothing = run("wait", "--data", data, "--timeout", 0)
    succeed("produce", write_lines(tmp_path / "events", [INCR, INCR]), "--data", data, "--partitions", 2)
    no_state = run("wait", "--data", data, "--partitions", 2, "--timeout", 0.3)
    succeed("replay", "--data", data, "--partitions", 2, "--to", to)
    log = f"sqlite:///{data / 'log.sqlite3'}"
    complete = json.loads(succeed("wait", "--data", to, "--log", log, "--timeout", 0, "--json"))
    succeed("produce", tmp_path / "events", "--data", data, "--partitions", 2)
    behind = run("wait", "--data", to, "--log", log, "--timeout", 0)
    as_json = run("wait", "--data", to, "--log", log, "--timeout", 0, "--json")
    (late,) = (each for each in json.loads(as_json.stdout)["partitions"] if each["missing"])
    other = 1 - late["partition"]

    assert [1] * 4 == [each.exit_code for each in (nothing, no_state, behind, as_json)]
    assert f"partition 0: there is no log at {data / 'log.sqlite3'}: name it with --data or --log\n" in nothing.stderr
    assert [True] * 2 == [f"{data} has no state of partition {each}" in no_state.stderr for each in range(2)]
    assert "not all is applied after 0.3 s\n" in no_state.stderr
    assert (True, ["", ""]) == (complete["applied"], [each["missing"] for each in complete["partitions"]])
    text = "2 of 4 offsets behind the log, and no service applies it here"
    assert (2, 4, text) == (late["next_offset"], late["log_end_offset"], late["missing"])
    assert f"slotlog: partition {late['partition']}: {text}\n" in behind.stderr
    assert f"partition {other}: 0 of 0 offsets applied\n" == behind.stdout
    assert 0 == run("wait", "--data", to, "--log", log, "--own", other, "--timeout", 0).exit_code


async def test_what_an_open_transaction_holds_up_is_waited_for(kafka_bootstrap: str, tmp_path: Path) -> None:
    """It is in the log, as are acknowledged events of others behind it; no new topic is made without them either."""
    topic, file, to = new_topic(), write_lines(tmp_path / "events", [INCR]), tmp_path / "to"
    log = ["--log", f"kafka://{kafka_bootstrap}", "--topic", topic]
    new = ["--to-log", f"sqlite:///{tmp_path / 'new.sqlite3'}", "--to-topic", "new", "--to-partitions", 3]
    await asyncio.to_thread(succeed, "produce", file, *log)
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, encode(b"INCR", [b"n"]), partition=0)
        await asyncio.to_thread(succeed, "produce", file, *log)
        await asyncio.to_thread(succeed, "replay", "--to", to, *log)
        waited = await asyncio.to_thread(run, "wait", "--data", to, *log, "--timeout", 0)
        made = await asyncio.to_thread(run, "repartition", "--data", to, *log, *new, "--to", tmp_path / "new")
        await producer.abort_transaction()

    assert (1, True) == (waited.exit_code, "2 of 3 offsets behind the log" in waited.stderr)
    assert (1, True) == (made.exit_code, "is not where its log ends" in " ".join(made.output.split()))


async def test_a_topic_that_was_deleted(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Where the broker answers that there is no such topic, that is said, and not that it has not answered."""
    topic, file, to = new_topic(), write_lines(tmp_path / "events", [INCR]), tmp_path / "to"
    log = ["--log", f"kafka://{kafka_bootstrap}", "--topic", topic]
    await asyncio.to_thread(succeed, "produce", file, *log)
    await asyncio.to_thread(succeed, "replay", "--to", to, *log)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    await admin.delete_topics([topic])
    while topic in await admin.list_topics():
        pass
    await admin.close()
    waited = await asyncio.to_thread(run, "wait", "--data", to, *log, "--timeout", 0)

    assert (1, True) == (waited.exit_code, f"there is no topic {topic}" in waited.stderr)
