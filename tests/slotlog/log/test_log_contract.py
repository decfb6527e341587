"""The contract of both logs. Every test here runs on the embedded log and on a real Kafka broker."""

from __future__ import annotations

import asyncio

import pytest

from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError, Mismatch, RecordTooLargeError
from slotlog.log import Entry, Log, open_log
from slotlog.log.log import ENTRY_BYTES_MAX
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.slotlog.fixtures import OpenLog
from tests.slotlog.log.reading import append, last_record, places, read, read_values


async def test_positions_count_per_partition(log: Log) -> None:
    """An append returns the position of each entry; each partition counts from 0."""
    positions = await log.append([Entry(0, b"", b"a"), Entry(1, b"", b"b"), Entry(0, b"", b"c")])

    assert [(0, 0), (1, 0), (0, 1)] == places(positions)
    assert [(0, 2)] == await append(log, b"d")


async def test_bytes_come_back(log: Log) -> None:
    """Keys and values come back byte for byte, also empty ones, a missing key and bytes that are no text."""
    entries = [Entry(0, b"\x31\xaa", bytes(range(256))), Entry(0, None, b"x"), Entry(0, b"", b"\xff\x00")]
    await log.append(entries)

    records = (await read(log.reader({0: 0}), 3))[0]

    assert [(0, entries[0].key, entries[0].value), (1, None, b"x"), (2, b"", b"\xff\x00")] == [
        (offset, key, value) for offset, _, key, value in records
    ]


async def test_largest_record(log: Log) -> None:
    """A record of 8 MiB, the largest that an event may be, goes through; so does the largest that a log takes."""
    values = [b"\xab" * RECORD_BYTES_MAX, b"\xcd" * (ENTRY_BYTES_MAX - 2)]
    await append(log, *values)

    assert values == await read_values(log, 2)


async def test_too_large(log: Log) -> None:
    """An entry that is larger is refused before anything of the call is appended."""
    with pytest.raises(RecordTooLargeError):
        await append(log, b"small", b"x" * ENTRY_BYTES_MAX)

    assert await log.end_offset(0) == 0


@pytest.mark.parametrize("partition", [-1, 2])
async def test_no_such_partition(log: Log, partition: int) -> None:
    """An entry for a partition that is not there is refused."""
    with pytest.raises(ValueError, match=f"partition {partition} is not one of 0 … 1"):
        await append(log, b"x", partition=partition)


async def test_nothing_to_append(log: Log) -> None:
    """An append of nothing is no error."""
    assert [] == await log.append([])


async def test_large_append_keeps_its_order(log: Log) -> None:
    """An append of more than one batch or transaction keeps the order of its entries, per partition."""
    entries = [Entry(number % 2, b"", b"%d" % number * 100) for number in range(5000)]

    positions = await log.append(entries)

    assert [(number % 2, number // 2) for number in range(5000)] == places(positions)
    assert [entry.value for entry in entries[::2]] == await read_values(log, 2500)


async def test_concurrent_appends_keep_their_order(log: Log) -> None:
    """Appends that wait at the same time are appended in the order of their calls."""
    values = [b"%d" % number for number in range(200)]

    positions = await asyncio.gather(*(append(log, value) for value in values))

    assert [[(0, offset)] for offset in range(200)] == positions
    assert values == await read_values(log, 200)


async def test_read_from_positions(log: Log) -> None:
    """A reader begins each partition at its own offset and gives nothing of others."""
    await append(log, *[b"a%d" % n for n in range(5)])
    await append(log, *[b"b%d" % n for n in range(5)], partition=1)

    fetched = await read(log.reader({0: 3, 1: 4}), 3)

    assert {0: [b"a3", b"a4"], 1: [b"b4"]} == {p: [record[3] for record in records] for p, records in fetched.items()}
    assert [b"b2", b"b3", b"b4"] == await read_values(log, 3, partition=1, offset=2)


async def test_records_max(log: Log) -> None:
    """A fetch gives no more records than asked for, and the next one goes on behind them."""
    await append(log, *[b"%d" % n for n in range(10)])
    reader = log.reader({0: 0})
    sizes: list[int] = []
    values: list[bytes | None] = []
    while len(values) < 10:
        records = (await reader.fetch(1000, 4)).get(0, [])
        sizes.append(len(records))
        values += [record[3] for record in records]

    assert max(sizes) == 4
    assert [b"%d" % n for n in range(10)] == values


async def test_position(log: Log) -> None:
    """The reader's position is the offset after the last record given, and the log's end when all is read."""
    reader = log.reader({0: 1})
    assert reader.position(0) == 1
    await append(log, b"a", b"b", b"c")

    await read(reader, 1, records_max=1)
    assert reader.position(0) == 2
    await read(reader, 1)
    assert reader.position(0) == await log.end_offset(0) == 3


async def test_nothing_there(log: Log) -> None:
    """A fetch at the end gives nothing."""
    assert {} == await log.reader({0: 0, 1: 0}).fetch(50, 10)


async def test_fetch_waits(log: Log) -> None:
    """A fetch at the end gives what is appended while it waits."""
    reader = log.reader({0: 0})
    fetching = asyncio.create_task(reader.fetch(30_000, 10))
    await asyncio.sleep(0.1)
    await append(log, b"late")

    assert [b"late"] == [record[3] for record in (await fetching)[0]]


async def test_seek(log: Log) -> None:
    """After a seek the reader goes on at the new offset, back or forth."""
    await append(log, *[b"%d" % n for n in range(6)])
    reader = log.reader({0: 0})
    await read(reader, 2, records_max=2)

    reader.seek(0, 5)
    assert [b"5"] == [record[3] for record in (await read(reader, 1))[0]]
    reader.seek(0, 1)
    assert reader.position(0) == 1
    assert [b"1"] == [record[3] for record in (await read(reader, 1, records_max=1))[0]]


async def test_pause(log: Log) -> None:
    """A paused partition gives nothing and keeps its position; after resume it goes on without a gap."""
    await append(log, b"a", b"b")
    await append(log, b"c", partition=1)
    reader = log.reader({0: 0, 1: 0})
    reader.pause(0)

    assert {1: [b"c"]} == {p: [r[3] for r in records] for p, records in (await read(reader, 1)).items()}
    assert {} == await reader.fetch(50, 10)
    assert reader.position(0) == 0
    reader.resume(0)
    assert [b"a", b"b"] == [record[3] for record in (await read(reader, 2))[0]]


async def test_all_partitions_are_served(log: Log) -> None:
    """A partition with much to read does not keep others waiting until it is done."""
    await append(log, *[b"x" * 1000] * 4000)
    await append(log, b"y", partition=1)
    reader = log.reader({0: 0, 1: 0})
    while reader.position(1) == 0:
        await reader.fetch(1000, 100)

    assert reader.position(0) < 4000


async def test_offsets(log: Log) -> None:
    """Begin and end of a partition: the same when it is empty, and what was appended lies between."""
    assert (await log.begin_offset(1), await log.end_offset(1)) == (0, 0)
    await append(log, b"a", b"b", partition=1)
    assert (await log.begin_offset(1), await log.end_offset(1)) == (0, 2)


async def test_offset_at(log: Log) -> None:
    """The offset at a time is that of the first record at it or later; None when there is none."""
    before = now_ms()
    await append(log, b"a")
    await asyncio.sleep(0.02)
    await append(log, b"b")
    time_ms = (await last_record(log))[1]

    assert await log.offset_at(0, before - 1000) == 0
    assert await log.offset_at(0, time_ms) == 1
    assert await log.offset_at(0, time_ms + 3_600_000) is None
    assert await log.offset_at(1, 0) is None


async def test_times(log: Log) -> None:
    """A record has the time of its append, and the next one none before it."""
    before = now_ms()
    await append(log, b"a", b"b")
    times = [record[1] for record in (await read(log.reader({0: 0}), 2))[0]]

    assert before <= times[0] <= times[1] <= now_ms()


async def test_open_again(open_one: OpenLog) -> None:
    """A log that is opened again has what was appended, and counts on."""
    first = await open_one()
    await append(first, b"a")
    await first.close()

    again = await open_one()

    assert [(0, 1)] == await append(again, b"b")
    assert [b"a", b"b"] == await read_values(again, 2)


async def test_close_twice(log: Log) -> None:
    """Log and reader can be closed twice."""
    reader = log.reader({0: 0})
    await reader.fetch(0, 1)
    await reader.close()
    await reader.close()
    await log.close()
    await log.close()


async def test_ends_of_a_log_that_is_not_started(log: Log) -> None:
    """Whoever only wants to know how far a log goes need not start it."""
    await append(log, b"a", b"b")
    other = open_log(log.url, topic=log.topic, partitions=log.partitions, create=False)

    assert {0: 2, 1: 0} == await other.ends([0, 1]) == await log.ends([0, 1])
    assert {0: 2, 1: 0} == await other.ends([0, 1], written=True)
    await other.close()


async def test_set_time_back(log: Log) -> None:
    """What is appended with the time set back stands behind the records before it, and they stay as they were."""
    await append(log, b"a")
    (position,) = await log.set_time_back(0, 1, [Entry(0, None, b"b", 1)])

    assert (0, 1) == position[:2]
    assert [] == await log.set_time_back(0, 1, [])
    assert [b"a", b"b"] == await read_values(log, 2)


async def test_commit(log: Log) -> None:
    """A commit changes nothing that is read."""
    await append(log, b"a", b"b")
    await log.commit({0: 2})

    assert [b"a", b"b"] == await read_values(log, 2)


@pytest.mark.parametrize("url", ["file.log", "sqlite:file.log", "sqlite:///", "kafka://", "redis://h:1", ""])
def test_unknown_url(url: str) -> None:
    """An address that is neither kind is refused."""
    with pytest.raises(ValueError, match="a log is sqlite:///FILE or kafka://HOST:PORT"):
        open_log(url, topic="t", partitions=1)


async def mismatch(log: Log, next_offset: int, fingerprint: bytes | None, partition: int = 0) -> LogMismatchError:
    """What `check` raises."""
    with pytest.raises(LogMismatchError) as raised:
        await log.check(partition, next_offset, fingerprint)
    return raised.value


async def test_check_the_same_log(log: Log) -> None:
    """A log is known again: before its first record, at its end, and when it has gone on since."""
    await log.check(0, 0, None)
    await append(log, b"a", b"b")
    fingerprint = log.fingerprint(0, await last_record(log))
    await log.check(0, 2, fingerprint)
    await append(log, b"c")

    await log.check(0, 2, fingerprint)
    await log.check(0, 0, None)


async def test_check_other_record(log: Log) -> None:
    """Another record where the state applied its last one: written anew. Each of time, key and value counts."""
    await append(log, b"a", b"b")
    offset, time_ms, key, value = await last_record(log)
    for other in [
        (offset, time_ms + 1, key, value),
        (offset, time_ms, b"\x00", value),
        (offset, time_ms, None, value),
        (offset, time_ms, key, b"c"),
    ]:
        error = await mismatch(log, 2, log.fingerprint(0, other))
        assert error.kind is Mismatch.RECREATED
        assert "holds another record at offset 1, where the state applied a record" in str(error)


async def test_check_truncated(log: Log) -> None:
    """A log that ends before the state's position was truncated, recreated or restored from an older copy."""
    await append(log, b"a", b"b")
    record = await last_record(log)

    error = await mismatch(log, 5, log.fingerprint(0, (4, *record[1:])))

    assert error.kind is Mismatch.TRUNCATED
    assert "ends at offset 2, but the state has applied everything before 5" in str(error)


async def test_check_fingerprint_of_the_other_kind(log: Log) -> None:
    """A state that was built from a log of the other kind is told so."""
    await append(log, b"a")

    assert (await mismatch(log, 1, b"\x00" * 7)).kind is Mismatch.TOPIC


async def test_partition_count(open_one: OpenLog) -> None:
    """A log with another number of partitions is refused at its start."""
    await open_one(partitions=2)
    with pytest.raises(LogMismatchError, match=r"has 2 partitions, (but|not) .*3") as raised:
        await open_one(partitions=3)

    assert raised.value.kind is Mismatch.PARTITIONS_CHANGED


async def test_missing(open_one: OpenLog) -> None:
    """A log that is not there, and may not be created, is refused."""
    with pytest.raises(LogMismatchError) as raised:
        await open_one(create=False)

    assert raised.value.kind is Mismatch.MISSING


async def test_reader_beyond_the_end(log: Log) -> None:
    """A reader whose position lies behind the log's end says so."""
    await append(log, b"a")
    with pytest.raises(LogMismatchError) as raised:
        await read(log.reader({0: 5}), 1)

    assert raised.value.kind is Mismatch.TRUNCATED
