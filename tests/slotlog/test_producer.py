"""The client library: routing, order, refusals, failures, bounded memory; async and sync."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from slotlog import producer as producer_module
from slotlog.errors import AppendUncertainError, CrossSlotError, LogUnavailableError, ProducerClosedError
from slotlog.events import decode
from slotlog.log import Entry, Log, RecordPosition, open_log
from slotlog.producer import Producer, SyncProducer, prepare
from slotlog.shared.errors import EventError
from slotlog.shared.slots import partition_of, slot
from tests.slotlog.fixtures import OpenLog
from tests.slotlog.log.reading import places, read


async def events(log: Log) -> list[list[tuple[bytes | None, bytes, list[Any]]]]:
    """All events of a log: for each partition its record keys, names and arguments."""
    ends = {partition: await log.end_offset(partition) for partition in range(log.partitions)}
    fetched = await read(log.reader(dict.fromkeys(ends, 0)), sum(ends.values()))
    return [
        [(key, *decode(offset, 0, value)[2:4]) for offset, _, key, value in fetched.get(partition, [])]
        for partition in ends
    ]


class FailingLog:
    """A log that can be told to fail or to stand still."""

    partitions = 1

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.open = asyncio.Event()
        self.open.set()
        self.calls: list[int] = []
        self.values: list[bytes] = []

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """Append, or fail with the next of `failures`."""
        await self.open.wait()
        self.calls.append(len(entries))
        if self.failures:
            raise self.failures.pop(0)
        first = len(self.values)
        self.values += [entry.value for entry in entries]
        return [RecordPosition(0, first + place, 0) for place in range(len(entries))]


@pytest.fixture
def failing() -> FailingLog:
    """A log that fails when it is told to."""
    return FailingLog()


def producer_on(log: FailingLog) -> Producer:
    """A producer on such a log."""
    return Producer(log)  # type: ignore[arg-type] # it has what a producer uses


# ------------------------------------------------------------------ where events go


async def test_send_and_wait(log: Log) -> None:
    """An event is durable, at the position that is returned, with the key's slot as its record's key."""
    async with Producer(log) as producer:
        positions = await producer.send_and_wait("set", "greeting", "hello", id="i", meta={"who": "me"})
    key_slot = slot(b"greeting")

    partition = partition_of(key_slot, 2)
    assert [(partition, 0)] == places(positions)
    assert [(key_slot.to_bytes(2, "big"), b"SET", [b"greeting", b"hello"])] == (await events(log))[partition]


async def test_routing(open_one: OpenLog) -> None:
    """Every event lies in the partition that holds its slot."""
    log = await open_one(partitions=5)
    async with Producer(log) as producer:
        for number in range(300):
            await producer.send("INCR", f"key:{number}")
    found = await events(log)

    assert [300 // 5 // 2 < len(partition) for partition in found] == [True] * 5
    for partition, records in enumerate(found):
        for key, _, (name,) in records:
            assert key == slot(name).to_bytes(2, "big")
            assert partition == partition_of(slot(name), 5)


async def test_keyless(log: Log) -> None:
    """An event without keys goes to every partition, without a record key."""
    async with Producer(log) as producer:
        positions = await producer.send_and_wait("FLUSHALL")

    assert [(0, 0), (1, 0)] == places(positions)
    assert [[(None, b"FLUSHALL", [])]] * 2 == await events(log)


async def test_exec(log: Log) -> None:
    """A transaction is one event, in the partition of its keys."""
    async with Producer(log) as producer:
        await producer.exec([["HSET", "h:{1}", "f", 1], ["INCR", "n:{1}"]], id="once")
    found = await events(log)

    expected = (slot(b"1").to_bytes(2, "big"), b"EXEC", [[b"HSET", b"h:{1}", b"f", b"1"], [b"INCR", b"n:{1}"]])
    assert [expected] == found[partition_of(slot(b"1"), 2)]


async def test_order(log: Log) -> None:
    """Events are appended in the order of their sending, through many batches."""
    async with Producer(log) as producer:
        for number in range(3000):
            await producer.send("RPUSH", "k", number)
    records = (await events(log))[partition_of(slot(b"k"), 2)]

    assert [b"%d" % number for number in range(3000)] == [args[1] for _, _, args in records]


def test_standalone_mixes_keys() -> None:
    """With one partition, keys of several slots and other databases go together; the first key names the slot."""
    entries = prepare(1, "MSET", ["a", "1", "b", "2"], db=3)

    assert [(0, slot(b"a").to_bytes(2, "big"))] == [entry[:2] for entry in entries]
    assert [0] == [entry.partition for entry in prepare(1, "EXEC", [["SET", "a", 1], ["SET", "b", 2]])]


def test_cross_slot() -> None:
    """In cluster mode, keys of several slots are refused with Redis' text, though they are in one partition."""
    first, second = "a", "d"
    assert slot(first.encode()) != slot(second.encode())
    assert partition_of(slot(first.encode()), 2) == partition_of(slot(second.encode()), 2)

    for cmd, args in (("MSET", [first, 1, second, 2]), ("EXEC", [["SET", first, 1], ["SET", second, 2]])):
        with pytest.raises(CrossSlotError, match="CROSSSLOT Keys in request don't hash to the same slot"):
            prepare(2, cmd, args)


@pytest.mark.parametrize(
    ("cmd", "args", "options", "said"),
    [
        ("NOPE", [], {}, "ERR unknown command 'NOPE'"),
        ("GET", [], {}, "wrong number of arguments for 'get' command"),
        ("EXEC", [["SET", "k"]], {}, "wrong number of arguments for 'set' command"),
        ("EXEC", ["SET", "k", "v"], {}, "a command of an EXEC is not an array"),
        ("SET", ["k", None], {}, "an argument is nil"),
        ("SET", ["k", "x" * 9_000_000], {}, "the record has more than"),
        ("SET", ["k", "v"], {"id": "x" * 65}, "id is not a string of 1 to 64 bytes"),
        ("SET", ["k", "v"], {"db": 16}, "db is not an integer from 0 to 15"),
        ("SET", ["k", "v"], {"db": 1}, "a topic of several partitions has database 0 alone"),
        ("RULES", [7], {}, "RULES moves a partition on to other rules: it is for operators alone"),
        ("dbsize", [], {}, "DBSIZE reads what is physically there: it cannot be an event"),
        ("EXEC", [], {}, "an EXEC without commands"),
        ("EXEC", [["DBSIZE"]], {}, "DBSIZE reads what is physically there: it cannot be an event"),
        ("EXEC", [["NOPE"]], {}, "ERR unknown command 'NOPE'"),
        ("EXEC", [["SET", "k", "v"], ["flushall"]], {}, "FLUSHALL cannot be part of a transaction"),
    ],
)
def test_refused(cmd: str, args: list[Any], options: dict[str, Any], said: str) -> None:
    """What could only become a dead letter is refused before it is sent, with the reason."""
    with pytest.raises(EventError, match=said):
        prepare(2, cmd, args, **options)


def test_keyless_in_a_transaction() -> None:
    """With one partition, an EXEC may hold those commands without keys that Redis has, and no others."""
    assert len(prepare(1, "EXEC", [["FLUSHALL"]])) == 1
    for command in (["TICK"], ["RULES", 1]):
        with pytest.raises(EventError, match=f"{command[0]} cannot be part of a transaction"):
            prepare(1, "EXEC", [command])


async def test_time(tmp_path: Path) -> None:
    """The embedded log takes the time that is given."""
    log = open_log(f"sqlite:///{tmp_path}/log", topic="t", partitions=1)
    await log.start()
    async with Producer(log) as producer:
        await producer.send("SET", "k", "v", time_ms=12_345)

    assert [12_345] == [record[1] for record in (await read(log.reader({0: 0}), 1))[0]]
    await log.close()


# ------------------------------------------------------------------ failures


async def test_failure_fails_what_waits_behind(failing: FailingLog) -> None:
    """When a batch fails, all events that wait behind it fail too, and none is appended; later ones go on."""
    producer = producer_on(failing)
    failing.failures = [LogUnavailableError("away")]
    failing.open.clear()
    first = await producer.send("SET", "k", "1")
    await asyncio.sleep(0)  # the first batch is under way
    behind = [await producer.send("SET", "k", str(number)) for number in range(2, 5)]
    failing.open.set()
    outcomes = await asyncio.gather(first, *behind, return_exceptions=True)

    assert ["away"] * 4 == [str(outcome) for outcome in outcomes]
    assert [1] == failing.calls
    assert [] == failing.values
    with pytest.raises(LogUnavailableError, match="away"):
        await producer.flush()
    assert [(0, 0)] == places(await producer.send_and_wait("SET", "k", "5"))
    await producer.close()


async def test_flush_raises_once(failing: FailingLog) -> None:
    """A flush raises the first failure since the last one, so that nobody has to look at each future."""
    producer = producer_on(failing)
    failing.failures = [AppendUncertainError("perhaps"), LogUnavailableError("second")]
    for _ in range(2):
        await producer.send("SET", "k", "v")
        await asyncio.sleep(0.01)
    with pytest.raises(AppendUncertainError, match="perhaps"):
        await producer.flush()

    await producer.flush()
    await producer.close()


async def test_close_raises_failures(failing: FailingLog) -> None:
    """Leaving the block raises a failure that nobody saw; the producer is closed all the same."""
    failing.failures = [LogUnavailableError("away")]
    with pytest.raises(LogUnavailableError, match="away"):
        async with producer_on(failing) as producer:
            await producer.send("SET", "k", "v")

    with pytest.raises(ProducerClosedError):
        await producer.send("SET", "k", "v")
    await producer.close()


async def test_cancelled_waiter(failing: FailingLog) -> None:
    """Whoever stops waiting for an event does not disturb the others of its batch."""
    producer = producer_on(failing)
    failing.open.clear()
    futures = [await producer.send("SET", "k", str(number)) for number in range(3)]
    futures[1].cancel()
    failing.open.set()

    assert [[(0, 0)], [(0, 2)]] == [places(await futures[0]), places(await futures[2])]
    await producer.close()


@pytest.mark.parametrize(("limit", "value"), [("_QUEUED_EVENTS_MAX", 3), ("_QUEUED_BYTES_MAX", 3 * len("x" * 1000))])
async def test_bounded(failing: FailingLog, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """While the log stands still, senders wait once the queue is full; then all go on, in their order."""
    monkeypatch.setattr(producer_module, limit, value)
    producer = producer_on(failing)
    failing.open.clear()
    queued: list[int] = []

    async def send_all() -> None:
        for number in range(20):
            await producer.send("RPUSH", "k", number, "x" * 1000)
            queued.append(number)

    sending = asyncio.create_task(send_all())
    await asyncio.sleep(0.05)
    assert len(queued) < 10
    failing.open.set()
    await sending
    await producer.close()

    assert [b"%d" % number for number in range(20)] == [decode(0, 0, value)[3][1] for value in failing.values]


async def test_batches(failing: FailingLog) -> None:
    """Events that are sent while a batch is under way go together in the next one."""
    producer = producer_on(failing)
    failing.open.clear()
    await producer.send("SET", "k", "v")
    await asyncio.sleep(0)
    for _ in range(100):
        await producer.send("SET", "k", "v")
    failing.open.set()
    await producer.close()

    assert [1, 100] == failing.calls


# ------------------------------------------------------------------ the sync face


@pytest.fixture
def open_local(tmp_path: Path) -> Callable[[], Log]:
    """Makes the same embedded log each time."""
    return lambda: open_log(f"sqlite:///{tmp_path}/log", topic="t", partitions=2)


async def test_sync(open_local: Callable[[], Log]) -> None:
    """The sync producer does the same, from several threads, each keeping its order."""

    def work() -> list[RecordPosition]:
        with SyncProducer(open_local) as producer:

            def send(name: str) -> None:
                for number in range(200):
                    producer.send("RPUSH", "{k}" + name, number)

            threads = [threading.Thread(target=send, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            producer.flush()
            producer.exec([["INCR", "{k}"]])
            return producer.send_and_wait("FLUSHALL")

    positions = await asyncio.to_thread(work)
    log = open_local()
    await log.start()
    records = (await events(log))[partition_of(slot(b"k"), 2)]
    await log.close()

    assert 402 == len(records)
    assert {401, 0} == {position.offset for position in positions}
    for name in (b"{k}a", b"{k}b"):
        numbers = [args[1] for _, _, args in records if args and args[0] == name]
        assert [b"%d" % number for number in range(200)] == numbers


def test_sync_refuses_at_once(open_local: Callable[[], Log]) -> None:
    """What is refused is refused in the call, not in its future."""
    with SyncProducer(open_local) as producer:
        with pytest.raises(EventError, match="unknown command"):
            producer.send("NOPE")
        with pytest.raises(CrossSlotError):
            producer.send("MSET", "a", 1, "b", 2)


def test_sync_closed(open_local: Callable[[], Log]) -> None:
    """A closed sync producer takes nothing more, and can be closed again."""
    producer = SyncProducer(open_local)
    producer.close()
    producer.close()

    with pytest.raises(ProducerClosedError):
        producer.send("SET", "k", "v")


def test_sync_cannot_open(tmp_path: Path) -> None:
    """A log that cannot be opened raises in the constructor, and leaves no thread behind."""
    (tmp_path / "file").touch()
    before = set(threading.enumerate())
    with pytest.raises(LogUnavailableError, match=r"directory .*file cannot be made"):
        SyncProducer(lambda: open_log(f"sqlite:///{tmp_path}/file/log", topic="t", partitions=1))

    assert not set(threading.enumerate()) - before  # one of an earlier test may have ended meanwhile
