"""Records from the future and clocks that they have moved: held, accepted, set right, beside a running service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.serving.service import Service
from slotlog.clock import WALL
from slotlog.events import encode
from slotlog.log import Entry, RecordPosition, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.writer import WriteJob, Writer
from slotlog.shared.limits import TIME_MS_MAX
from tests.faults.topics import administered
from tests.ingest.applying.test_consumer import until
from tests.ops.serving.test_health import served
from tests.ops.state.clocks.test_clocks import Client
from tests.ops.verbs import run, succeed
from tests.real.oracle import ErrorReply, SimpleString

OK = SimpleString(b"OK")
YEARS_MS = 10 * 365 * 24 * 3_600_000


async def append(data: Path, *entries: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Append as a process of a release did that took any time, or as a broker's clock would have it.

    A service in the same process shares `WALL`, and may read the records before this returns. So its bound on the times
    of records, `ahead_max_ms`, stays as it is.
    """
    log = open_log(f"sqlite:///{data}/log.sqlite3", topic="slotlog", partitions=1)
    await log.start()
    with monkeypatch.context() as patch:
        patch.setattr(WALL, "refuse_ahead", lambda _time_ms: None)
        await log.append(entries)
    await log.close()


def event(*words: str, time_ms: int | None = None) -> Entry:
    """A record of database 0."""
    return Entry(0, b"\0\0", encode(words[0], list(words[1:])), time_ms)


async def verb(*words: object) -> Any:
    """What a verb says, in JSON."""
    return json.loads(await asyncio.to_thread(succeed, "clock", *words, "--json"))


async def accept_ahead(service: Service, data: Path, ahead_ms: int, monkeypatch: pytest.MonkeyPatch) -> OwnedPartition:
    """Append a record with this time and accept it: the partition's clock has moved there on return."""
    await append(data, event("INCR", "n", time_ms=ahead_ms), monkeypatch=monkeypatch)
    owned = service.consumer.partitions[0]
    await until(lambda: owned.holds_record)
    await verb("accept", "0", "--data", data)
    await until(lambda: owned.worker.is_open and owned.worker.machine.clock_ms == ahead_ms)
    return owned


async def test_a_record_from_the_future_is_held_until_it_is_set_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither applied nor skipped, reads go on; set right it counts as of now, as does all behind it. No lock dies."""
    data = tmp_path / "data"
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "lock", "mine", "EX", 1000)
        ahead_ms = WALL.now_ms() + YEARS_MS
        await append(data, event("INCR", "n", time_ms=ahead_ms), event("INCR", "n"), monkeypatch=monkeypatch)
        owned = it.service.consumer.partitions[0]
        await until(lambda: str(owned.condition) == "waiting")
        held = await it.until("/readyz", 503)
        refused = [await client.call("SET", "k", "v"), await client.call("GET", "lock")]
        (shown,) = (await verb("show", "--data", data))["partitions"]
        done = await verb("set", "0", "--data", data)
        await it.until("/readyz", 200)
        after = [
            await client.call("GET", "n"),
            await client.call("GET", "lock"),
            await client.call("SET", "k", "v", "EX", 100),
        ]
        left = await client.call("TTL", "k")
        clock_ms = owned.worker.machine.clock_ms
        client.close()
    replayed = await asyncio.to_thread(succeed, "replay", "--data", data, "--to", tmp_path / "again", "--json")

    assert held["partitions"][0]["reason"].startswith(f"the record at offset 1 has a time in the future, {ahead_ms} ms")
    assert "slotlog clock set 0" in held["partitions"][0]["reason"]
    assert isinstance(refused[0], ErrorReply)
    assert b"mine" == refused[1]
    assert (1, ahead_ms) == (shown["next_offset"], shown["held_ms"])
    assert ([1, 2], -1) == (done["retimed"], done["offset"])
    assert [b"2", b"mine", OK] == after
    assert left in {99, 100}
    assert abs(clock_ms - WALL.now_ms()) < 60_000
    (partition,) = json.loads(replayed)["partitions"]
    assert partition["live_digest"] == partition["digest"]


async def test_an_accepted_record_moves_the_clock_and_the_clock_can_be_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted it has its time; then an event sets the clock back, and the log's time. A replay comes to the same."""
    data = tmp_path / "data"
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "lock", "mine", "EX", 1000)
        await client.call("SET", "stays", "here")
        ahead_ms = WALL.now_ms() + YEARS_MS
        owned = await accept_ahead(it.service, data, ahead_ms, monkeypatch)
        await it.until("/readyz", 200)
        _, warned = await it.get("/readyz")
        (warning,) = warned["log"]["warnings"]
        await until(lambda: 0 in it.service._clock._ahead)  # which writes the log line
        frozen = [await client.call("GET", "lock"), await client.call("SET", "k", "v", "PX", 60_000)]
        done = await verb("set", "0", "--data", data)
        await until(lambda: owned.worker.machine.clock_ms < ahead_ms)
        after = [
            await client.call("GET", "stays"),
            await client.call("GET", "lock"),
            await client.call("SET", "j", "v", "PX", 20),
        ]
        await until(lambda: owned.worker.machine.key_counts.get((0, 1)) == 3)  # all but j, which was due
        gone = await client.call("GET", "j")
        client.close()
    replayed = await asyncio.to_thread(succeed, "replay", "--data", data, "--to", tmp_path / "again", "--json")

    assert warned["ready"] is True
    assert warning.startswith("the clock of partition 0 is 3153")
    assert warning.endswith(
        "ahead of the wall clock: keys die too early and then none does; `slotlog clock set 0` sets it back"
    )
    assert [None, OK] == frozen
    assert (ahead_ms, None) == (done["from_ms"], done["retimed"])
    assert [b"here", None, OK] == after
    assert gone is None
    (partition,) = json.loads(replayed)["partitions"]
    assert partition["live_digest"] == partition["digest"]


async def append_at_times_of_the_log(
    log: EmbeddedLog, _partition: int, _to_ms: int, entries: Sequence[Entry]
) -> list[RecordPosition]:
    """As with Kafka, whose brokers give the times."""
    return await log.append([entry._replace(time_ms=None) for entry in entries])


async def test_what_sets_a_clock_back_may_be_dated_ahead_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker's clock is wrong the verb says so and fails; said again when that is right, it is done."""
    data = tmp_path / "data"
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        ahead_ms = WALL.now_ms() + YEARS_MS
        owned = await accept_ahead(it.service, data, ahead_ms, monkeypatch)
        with monkeypatch.context() as broker:
            broker.setattr(EmbeddedLog, "set_time_back", append_at_times_of_the_log)
            broker.setattr("slotlog.log.embedded.writer.stamp_ms", lambda: ahead_ms + 60_000)
            failed = await asyncio.to_thread(run, "clock", "set", 0, "--data", data)
            as_json = await asyncio.to_thread(run, "clock", "set", 0, "--data", data, "--json")
        await until(lambda: owned.holds_record)
        await verb("set", "0", "--data", data)
        await it.until("/readyz", 200)
        clock_ms = owned.worker.machine.clock_ms
        after = await client.call("SET", "k", "v", "PX", 60_000)
        client.close()

    assert [1, 1] == [failed.exit_code, as_json.exit_code]
    assert "the event at offset 1 sets its clock back" in failed.stdout
    assert "the log dates the event at offset 1 31536" in failed.stderr
    assert "Set that clock right, then say `slotlog clock set 0` again" in failed.stderr
    assert YEARS_MS < json.loads(as_json.stdout)["ahead_ms"]
    assert abs(clock_ms - WALL.now_ms()) < 60_000
    assert OK == after


async def test_what_follows_a_clock_that_is_set_back_is_judged_by_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of the same fetch behind the event are held where they lie in the future of the wall clock."""
    data = tmp_path / "data"
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        ahead_ms = WALL.now_ms() + YEARS_MS
        owned = await accept_ahead(it.service, data, ahead_ms, monkeypatch)
        right_ms = WALL.now_ms()
        setting = event("SETCLOCK", str(ahead_ms), str(right_ms), time_ms=ahead_ms)
        await append(data, setting, event("INCR", "n", time_ms=ahead_ms), monkeypatch=monkeypatch)
        await until(lambda: owned.worker.machine.next_offset > 1)
        position, clock_ms = owned.worker.machine.next_offset, owned.worker.machine.clock_ms

    assert (2, right_ms) == (position, clock_ms)


async def test_there_has_to_be_something_to_set_or_accept(tmp_path: Path) -> None:
    """A good partition is left alone, and no clock is set ahead of the wall clock."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "k", "v")
        client.close()
    words = ("--data", tmp_path / "data")
    set_it, accept_it, ahead, strange = [
        await asyncio.to_thread(run, "clock", *each, *words)
        for each in (("set", 0), ("accept", 0), ("set", 0, "--to", TIME_MS_MAX), ("set", 0, "--to", "soon"))
    ]

    assert [1, 1, 1, 1] == [each.exit_code for each in (set_it, accept_it, ahead, strange)]
    assert "there is nothing to set" in set_it.stderr
    assert "there is nothing to accept" in accept_it.stderr
    assert "ahead of the wall clock" in ahead.stderr
    assert "is neither milliseconds since 1970 nor a time such as" in strange.stderr


async def test_a_record_is_held_no_longer_than_until_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the wall clock is near enough the partition goes on by itself."""
    later_ns = 600 * 1_000_000_000
    wall_ns, boot_ns = WALL.wall_ns, WALL.boot_ns
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        ahead_ms = WALL.now_ms() + later_ns // 1_000_000
        await append(tmp_path / "data", event("INCR", "n", time_ms=ahead_ms), monkeypatch=monkeypatch)
        owned = it.service.consumer.partitions[0]
        await until(lambda: owned.holds_record)
        with monkeypatch.context() as time_passes:
            time_passes.setattr(WALL, "boot_ns", lambda: boot_ns() + later_ns)
            time_passes.setattr(WALL, "wall_ns", lambda: wall_ns() + later_ns)
            await it.until("/readyz", 200)
        assert 1 == owned.worker.machine.next_offset


async def test_a_write_that_the_log_dates_ahead_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker's wrong clock would: nobody is told that it was applied, and once set right it is."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "lock", "mine", "EX", 1000)
        with monkeypatch.context() as broker:
            broker.setattr("slotlog.log.embedded.writer.stamp_ms", lambda: WALL.now_ms() + YEARS_MS)
            uncertain = await client.call("INCR", "n")
        owned = it.service.consumer.partitions[0]
        await until(lambda: owned.holds_record)
        await verb("set", "0", "--data", tmp_path / "data")
        await it.until("/readyz", 200)
        after = [await client.call("GET", "n"), await client.call("GET", "lock")]
        client.close()

    assert isinstance(uncertain, ErrorReply)
    assert uncertain.text.startswith(
        b"UNKNOWNOUTCOME the write is in the log and not applied yet: the record at offset 1"
    )
    assert [b"1", b"mine"] == after


async def test_a_record_from_the_future_is_held_before_its_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service reads it as soon as it is committed, and holds it by its own bound."""
    seen = Event()
    write = Writer._write

    def write_and_wait(self: Writer, group: list[WriteJob]) -> list[Any]:
        results = write(self, group)
        assert seen.wait(60)
        return results

    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        owned = it.service.consumer.partitions[0]
        monkeypatch.setattr(Writer, "_write", write_and_wait)
        ahead = event("INCR", "n", time_ms=WALL.now_ms() + YEARS_MS)
        appending = asyncio.create_task(append(tmp_path / "data", ahead, monkeypatch=monkeypatch))
        await until(lambda: owned.holds_record or owned.worker.machine.next_offset > 0)
        seen.set()
        await appending
        held = owned.holds_record, owned.worker.machine.next_offset

    assert (True, 0) == held


async def test_what_stands_before_a_held_record_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the same fetch are, up to it and no further."""
    data = tmp_path / "data"
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        ahead = event("INCR", "n", time_ms=WALL.now_ms() + YEARS_MS)
        await append(data, event("INCR", "n"), event("INCR", "n"), ahead, ahead, monkeypatch=monkeypatch)
        owned = it.service.consumer.partitions[0]
        await until(lambda: owned.holds_record)
        client = Client(it)
        value = await client.call("GET", "n")
        client.close()

    assert (b"2", 2) == (value, owned.position.next_offset if owned.position else -1)


async def test_a_record_that_a_producer_dates_ahead_on_kafka_is_set_right(
    tmp_path: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held where a topic takes producers' times; accepted the clock is ahead, and an event in the log sets it back."""
    data, topic = tmp_path / "data", f"ahead-{uuid4().hex}"
    log = f"kafka://{kafka_bootstrap}"
    async with served(tmp_path, log=log, topic=topic, kafka={"create_time": True}) as it:
        await it.until("/readyz", 200)
        client = Client(it)
        await client.call("SET", "lock", "mine", "EX", 1000)
        async with administered(kafka_bootstrap, topic) as made:
            await made.configure(message_timestamp_type="CreateTime", retention_ms="-1", max_message_bytes="9437184")
        ahead_ms = WALL.now_ms() + 50 * 60_000  # no broker takes more than an hour
        async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer:
            value = encode("INCR", ["n"])
            await producer.send_and_wait(topic, value, key=b"\0\0", partition=0, timestamp_ms=ahead_ms)
        owned = it.service.consumer.partitions[0]
        await until(lambda: owned.holds_record)
        words = ("0", "--data", data, "--log", log)
        monkeypatch.setenv("SLOTLOG_KAFKA__CREATE_TIME", "true")
        await verb("accept", *words)
        await until(lambda: owned.worker.is_open and owned.worker.machine.clock_ms == ahead_ms)
        done = await verb("set", *words)
        await until(lambda: owned.worker.machine.clock_ms < ahead_ms)
        after = [await client.call("GET", "n"), await client.call("GET", "lock"), await client.call("SET", "k", "v")]
        client.close()

    assert (ahead_ms, 2) == (done["from_ms"], done["offset"])
    assert [b"1", None, OK] == after
