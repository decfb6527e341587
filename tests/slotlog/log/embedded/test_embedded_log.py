"""Facts of the embedded log alone: times, trimming, several processes, kill -9, foreign files."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slotlog import clock
from slotlog.errors import AppendUncertainError, LogMismatchError, LogUnavailableError, Mismatch
from slotlog.log import Entry, RecordPosition
from slotlog.log.embedded import writer
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.errors import InvariantError
from slotlog.shared.limits import TIME_MS_MAX
from tests.slotlog.log.reading import append, last_record, read, read_values

APPENDER = """
import asyncio, sys
from pathlib import Path
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog

async def main(path, name, count, batch):
    log = EmbeddedLog(Path(path), topic="t", partitions=2)
    await log.start()
    for first in range(0, count, batch):
        positions = await log.append([Entry(0, b"", b"%s %d" % (name, n)) for n in range(first, first + batch)])
        for n, position in enumerate(positions):
            print(first + n, position.offset, flush=n == batch - 1)
    await log.close()

asyncio.run(main(sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])))
"""


def appender(path: Path, name: str, count: int, batch: int) -> subprocess.Popen[str]:
    """Another process that appends `count` records in batches, and prints each number and offset once it is durable."""
    command = [sys.executable, "-c", APPENDER, str(path), name, str(count), str(batch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4])


# ------------------------------------------------------------------ time


async def test_given_times(local_log: EmbeddedLog) -> None:
    """A given time is kept, but never goes back in its partition; the other partition has times of its own."""
    await local_log.append([Entry(0, b"", b"", time_ms) for time_ms in (5, 9, 7, 0, 10)])
    await local_log.append([Entry(1, b"", b"", 3)])
    times = await read(local_log.reader({0: 0, 1: 0}), 6)

    assert {0: [5, 9, 9, 9, 10], 1: [3]} == {p: [record[1] for record in records] for p, records in times.items()}


async def test_wall_clock_behind(local_log: EmbeddedLog) -> None:
    """Without a given time, the wall clock counts, unless it is behind the last record."""
    soon_ms = clock.now_ms() + 50_000
    await local_log.append([Entry(0, b"", b"", soon_ms), Entry(0, b"", b"")])

    assert (await last_record(local_log))[1] == soon_ms


async def test_wall_clock_steps_back(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that steps back does not take the log's time with it."""
    now = clock.now_ms()
    await append(local_log, b"a")
    monkeypatch.setattr("slotlog.log.embedded.writer.stamp_ms", lambda: now - 60_000)
    await append(local_log, b"b")
    times = [record[1] for record in (await read(local_log.reader({0: 0}), 2))[0]]

    assert times[0] == times[1] >= now


@pytest.mark.parametrize("time_ms", [-1, TIME_MS_MAX + 1])
async def test_impossible_times(local_log: EmbeddedLog, time_ms: int) -> None:
    """A time that no event can have is refused before anything is appended: it would stay for ever."""
    with pytest.raises(ValueError, match=f"time {time_ms} is outside"):
        await local_log.append([Entry(0, b"", b"a", 1), Entry(0, b"", b"b", time_ms)])

    assert await local_log.end_offset(0) == 0


async def test_offset_at(local_log: EmbeddedLog) -> None:
    """The first record at a time or later, also after a trim."""
    await local_log.append([Entry(0, b"", b"", time_ms) for time_ms in (10, 20, 20, 30)])

    assert [0, 0, 1, 1, 3, 3, None] == [await local_log.offset_at(0, t) for t in (0, 10, 11, 20, 21, 30, 31)]
    await local_log.trim(0, 2)
    assert [2, 2, 3, None] == [await local_log.offset_at(0, t) for t in (0, 20, 30, 31)]


# ------------------------------------------------------------------ trimming


async def test_trim(local_log: EmbeddedLog) -> None:
    """A trim forgets what lies before an offset, in its partition alone."""
    await append(local_log, *[b"%d" % n for n in range(5)])
    await append(local_log, b"other", partition=1)

    assert await local_log.trim(0, 3) == 3
    assert (await local_log.begin_offset(0), await local_log.end_offset(0)) == (3, 5)
    assert [b"3", b"4"] == await read_values(local_log, 2, offset=3)
    assert [b"other"] == await read_values(local_log, 1, partition=1)


async def test_trimmed_to_nothing(local_log: EmbeddedLog, local_path: Path) -> None:
    """After a full trim, offsets and times go on where they were, also in a new process."""
    soon_ms = clock.now_ms() + 50_000
    await local_log.append([Entry(0, b"", b"", soon_ms)] * 3)
    assert await local_log.trim(0, 1_000_000) == 3
    await local_log.close()
    again = EmbeddedLog(local_path, topic="t", partitions=2)
    await again.start()

    assert [(0, 3)] == await append(again, b"new")
    assert (await last_record(again))[1] == soon_ms
    await again.close()


async def test_check_after_trim(local_log: EmbeddedLog) -> None:
    """A state that has applied what was trimmed goes on; one that has not is refused, and so is its reader."""
    await append(local_log, b"a", b"b", b"c")
    fingerprint = local_log.fingerprint(0, (await read(local_log.reader({0: 1}), 1, records_max=1))[0][0])
    await local_log.trim(0, 2)
    await local_log.check(0, 2, fingerprint)
    await local_log.check(0, 3, fingerprint)
    await local_log.trim(0, 3)

    with pytest.raises(LogMismatchError, match=r"is trimmed to nothing.*1 offsets are lost") as raised:
        await local_log.check(0, 2, fingerprint)
    assert raised.value.kind is Mismatch.EVENTS_LOST
    with pytest.raises(LogMismatchError, match="is trimmed to nothing"):
        await local_log.reader({0: 2}).fetch(0, 1)
    await append(local_log, b"d")
    with pytest.raises(LogMismatchError, match="begins at offset 3"):
        await local_log.reader({0: 2}).fetch(0, 1)


# ------------------------------------------------------------------ several processes


async def test_other_processes_append(local_log: EmbeddedLog, local_path: Path) -> None:
    """Three processes append while this one appends and reads: nothing is lost, each one's order is kept."""
    others = [appender(local_path, name, 3000, batch) for name, batch in (("a", 1000), ("b", 100), ("c", 10))]
    reader = local_log.reader({0: 0})
    values: list[bytes] = []
    own = 0
    while len(values) < 9000 + own:
        if any(other.poll() is None for other in others):
            await append(local_log, b"own %d" % own)
            own += 1
        for _, _, _, value in (await reader.fetch(10, 1000)).get(0, []):
            assert value is not None
            values.append(value)
    for other in others:
        other.communicate()

    assert [0, 0, 0] == [other.returncode for other in others]
    for name, count in ((b"a", 3000), (b"b", 3000), (b"c", 3000), (b"own", own)):
        assert [b"%s %d" % (name, n) for n in range(count)] == [v for v in values if v.split()[0] == name]


async def test_another_process_is_noticed(local_log: EmbeddedLog, local_path: Path) -> None:
    """A reader that waits at the end gets what another process appends."""
    reader = local_log.reader({0: 0})
    fetching = asyncio.create_task(reader.fetch(60_000, 10))
    other = appender(local_path, "late", 1, 1)

    assert [b"late 0"] == [record[3] for record in (await fetching)[0]]
    assert other.communicate()[0] == "0 0\n"


async def test_kill(local_log: EmbeddedLog, local_path: Path) -> None:
    """A process killed while it appends: all that was acknowledged is there, in whole batches, without a gap."""
    await local_log.close()
    acknowledged: dict[int, int] = {}
    for _ in range(3):
        other = appender(local_path, "x", 1_000_000, 7)
        assert other.stdout is not None
        acknowledged.clear()
        for _ in range(70):
            number, offset = other.stdout.readline().split()
            acknowledged[int(number)] = int(offset)
        other.send_signal(signal.SIGKILL)
        rest = other.communicate()[0].splitlines()
        for line in rest[:-1]:  # the last one may be torn
            number, offset = line.split()
            acknowledged[int(number)] = int(offset)
    again = EmbeddedLog(local_path, topic="t", partitions=2)
    await again.start()
    end = await again.end_offset(0)
    records = (await read(again.reader({0: 0}), end))[0]
    await again.close()

    assert end % 7 == 0
    assert list(range(end)) == [record[0] for record in records]
    assert [b"x %d" % number for number in acknowledged] == [records[offset][3] for offset in acknowledged.values()]


async def test_lock_held_for_ever(local_log: EmbeddedLog, local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that never lets go of the lock makes the log unavailable; later appends go through."""
    monkeypatch.setattr("slotlog.log.embedded.writer.BUSY_SECONDS_MAX", 0.05)
    holder = sqlite3.connect(local_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailableError, match="another process holds the log's lock"):
        await append(local_log, b"a")
    holder.execute("ROLLBACK")
    holder.close()

    assert [(0, 0)] == await append(local_log, b"a")


# ------------------------------------------------------------------ limits and failures


async def test_pages_are_short(local_log: EmbeddedLog) -> None:
    """A fetch gives a few MiB at most, however many records are asked for."""
    await append(local_log, *[b"x" * 1024 * 1024] * 12)
    reader = local_log.reader({0: 0})
    sizes = [len((await reader.fetch(0, 1000))[0]) for _ in range(3)]

    assert [5, 5, 2] == sizes


async def test_failing_job_fails_alone(local_log: EmbeddedLog) -> None:
    """When a transaction fails, whoever waits for it gets the error, and the next one goes through."""

    def fail(_: sqlite3.Connection) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await local_log.write(fail)

    assert [(0, 0)] == await append(local_log, b"a")


async def test_nothing_overtakes_a_failure(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a part of a large append fails, the outcome is uncertain, and what stands behind it is not appended."""
    append_rows = writer.append_rows
    calls: list[int] = []

    def failing(connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[RecordPosition]:
        calls.append(len(entries))
        if len(calls) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        return append_rows(connection, entries)

    monkeypatch.setattr(writer, "append_rows", failing)
    with pytest.raises(AppendUncertainError, match=r"1000 of 3000 were appended: .*disk I/O error"):
        await append(local_log, *[b"x"] * 3000)

    assert [1000, 1000] == calls
    assert [(0, 1000)] == await append(local_log, b"next")


async def test_not_open(local_path: Path) -> None:
    """A log that was not started, or is closed, says so."""
    log = EmbeddedLog(local_path, topic="t", partitions=1)
    with pytest.raises(RuntimeError, match="is not open"):
        await append(log, b"a")
    with pytest.raises(RuntimeError, match="is not open"):
        await log.end_offset(0)


# ------------------------------------------------------------------ what must not hang, vanish or spread


async def test_close_during_an_append(local_log: EmbeddedLog) -> None:
    """An append of several groups ends when the log is closed between two of them, and its outcome is uncertain."""
    appending = asyncio.create_task(append(local_log, *[b"x"] * 20_000))
    while await local_log.end_offset(0) == 0:  # noqa: ASYNC110 - the append sends no event
        await asyncio.sleep(0)
    await local_log.close()

    with pytest.raises(AppendUncertainError, match=r"of 20000 were appended: the log .* is closed"):
        await appending


async def test_later_groups_fail_as_uncertain(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails after the first group of an append: some of it is in the log."""
    inserted: list[int] = []
    insert = writer._insert

    def fail_at_second(connection: sqlite3.Connection, fields: list[Any]) -> None:
        inserted.append(len(fields) // 5)
        if len(inserted) == 2:
            raise ZeroDivisionError
        insert(connection, fields)

    monkeypatch.setattr(writer, "_insert", fail_at_second)
    with pytest.raises(AppendUncertainError, match="1000 of 1500 were appended"):
        await append(local_log, *[b"x"] * 1500)

    assert (1000, [1000, 500]) == (await local_log.end_offset(0), inserted)


async def test_a_failing_job_fails_alone(local_log: EmbeddedLog) -> None:
    """Jobs that share a transaction with one that cannot be written are written all the same."""
    good, bad, work, other = await asyncio.gather(
        append(local_log, b"a"),
        local_log.append([Entry(0, b"", [b"not bytes"])]),  # type: ignore[arg-type]
        local_log.write(lambda _: 1 // 0),
        append(local_log, b"b"),
        return_exceptions=True,
    )

    assert ([(0, 0)], [(0, 1)]) == (good, other)
    assert (TypeError, ZeroDivisionError) == (type(bad), type(work))
    assert [b"a", b"b"] == await read_values(local_log, 2)


async def test_offsets_without_a_gap_or_nothing(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append whose rows are not those that were asked for is rolled back, and the next one goes through."""
    await append(local_log, b"a")
    with monkeypatch.context() as patch:
        of_four = writer._inserts_of(4)
        patch.setattr(writer, "_inserts_of", lambda _: of_four)  # the fifth row is forgotten
        with pytest.raises(InvariantError, match="other offsets than the 5 that were given out"):
            await append(local_log, *[b"b"] * 5)
        assert 1 == await local_log.end_offset(0)

    assert [(0, 1), (0, 2)] == await append(local_log, b"b", b"c")
