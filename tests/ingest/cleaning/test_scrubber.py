"""The scrub finds damage that nobody reads, at its own pace, and repeats it until it is gone."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from ingest.cleaning.scrubber import SLICE_ROWS, Scrubber
from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from slotlog.errors import LogMismatchError
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.chain import checked
from slotlog.log.embedded.proof.scan import Damage, PartitionScan
from tests.slotlog.log.reading import append

RECORDS = 5 * SLICE_ROWS // 2
FAST = 1 << 40


@pytest.fixture
async def filled(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> EmbeddedLog:
    """A log whose partitions take several slices each."""
    monkeypatch.setattr("ingest.cleaning.scrubber._AGAIN_SECONDS", 0)
    for partition in (0, 1):
        await append(local_log, *[b"%d" % n for n in range(RECORDS)], partition=partition)
    await EmbeddedDeadLetters(local_log).store([DeadLetter("t", 0, 3, 1, "no event", None, b"x")])
    return local_log


def change(path: Path, statement: str) -> None:
    """Change the file behind the log's back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


async def test_sound(filled: EmbeddedLog) -> None:
    """A round over a sound log reads all of it, and finds nothing."""
    with capture_logs() as said:
        await Scrubber(filled, [0, 1], FAST).scrub()

    assert ([], 0) == (said, filled.scrubbed.damages)
    assert filled.scrubbed.bytes > 2 * RECORDS * 64
    assert filled.scrubbed.ended_ms > 0


async def test_damage(filled: EmbeddedLog, local_path: Path) -> None:
    """Each damage is a line with its place, and counts until a round no longer finds it."""
    change(local_path, "UPDATE records SET value = x'ff' WHERE position = 7")
    change(local_path, f"DELETE FROM records WHERE position BETWEEN {(1 << 48) + 150} AND {(1 << 48) + 159}")  # noqa: S608
    change(local_path, "UPDATE dead_letters SET value = x'ff'")
    scrubber = Scrubber(filled, [0, 1], FAST)
    for _ in range(2):
        with capture_logs() as said:
            await scrubber.scrub()
        assert [("record", 0, 7, 1), ("record", 1, 150, 10), ("letter", 0, 3, 1)] == [
            (each["kind"], each["partition"], each["offset"], each["records"]) for each in said
        ]
        assert 12 == filled.scrubbed.damages
    change(local_path, "UPDATE records SET value = x'37' WHERE position = 7")
    await scrubber.scrub()

    assert 11 == filled.scrubbed.damages
    await Scrubber(filled, [0], FAST).scrub()
    assert 1 == filled.scrubbed.damages


async def test_a_read_that_fails_once(filled: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk cannot read once is read again before it counts as damaged."""
    failures = iter([True])

    def failing(*arguments: object) -> object:
        if next(failures, False):
            raise sqlite3.DatabaseError("database disk image is malformed")
        return checked(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("slotlog.log.embedded.proof.scan.checked", failing)
    await Scrubber(filled, [0, 1], FAST).scrub()

    assert (0, []) == (filled.scrubbed.damages, list(failures))


async def test_pace(filled: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps as long as what it read may take."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    # Of the scrubber alone: the log's own tasks sleep as well, and would go round and round without giving way.
    monkeypatch.setattr("ingest.cleaning.scrubber.asyncio", SimpleNamespace(sleep=sleep))
    await Scrubber(filled, [0, 1], 1000).scrub()

    assert filled.scrubbed.bytes / 1000 == pytest.approx(sum(slept))


async def test_exchanged(filled: EmbeddedLog, local_path: Path) -> None:
    """A file that took the place of the log is not scrubbed for it."""
    scrubber = Scrubber(filled, [0], FAST)
    local_path.with_name(f"{local_path.name}-wal").unlink()

    with pytest.raises(LogMismatchError, match="deleted or exchanged"):
        await scrubber.scrub()
    assert 0 == filled.scrubbed.ended_ms


async def test_stopped_while_its_thread_reads(filled: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrub that is cancelled closes its connection when its thread is done with it: earlier, SQLite would crash."""
    reading, cancelled = Event(), Event()
    rows: list[tuple[int]] = []

    def slice_(_: PartitionScan, connection: sqlite3.Connection, *__: int) -> tuple[list[Damage], int]:
        reading.set()
        cancelled.wait()
        rows.extend(connection.execute("SELECT 1"))
        return [], 0

    monkeypatch.setattr(PartitionScan, "slice", slice_)
    scrubbing = asyncio.create_task(Scrubber(filled, [0], FAST).scrub())
    await asyncio.to_thread(reading.wait)
    scrubbing.cancel()
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(cancelled.set))
    with pytest.raises(asyncio.CancelledError):
        await scrubbing

    assert [(1,)] == rows
