"""A batch that must not be written: what stands before the record to blame is, and the partition stops there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.errors import PartitionStoppedError
from engine.store.rocks import RocksStore
from ingest.applying.batches.worker import Worker
from ingest.reporting.observer import NullObserver
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.log import LogRecord
from slotlog.shared.errors import InvariantError
from tests.faulty import POISON, REASON, plant_bug
from tests.layouts import column_families, home_of

STOPS_AT = 3


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """Seven records, of which the fourth is one that the planted bug cannot stand."""
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=1)
    await log.start()
    entries = [Entry(0, None, encode("INCR", ["n"]))] * 7
    entries[STOPS_AT] = Entry(0, None, encode("SET", ["bad", POISON]))
    await log.append(entries)
    yield log
    await log.close()


@pytest.fixture
def worker(log: EmbeddedLog, tmp_path: Path) -> Worker:
    """A worker of that log with a store on disk, open."""
    home = home_of("t", 0, 1)
    path = tmp_path / "state"
    worker = Worker(home, log, lambda _: RocksStore(path, column_families()), None, NullObserver())
    worker.open()
    return worker


async def fetched(log: EmbeddedLog, from_offset: int) -> list[LogRecord]:
    """All records from an offset on."""
    records: list[LogRecord] = (await log.reader({0: from_offset}).fetch(1000, 100))[0]
    return records


async def test_nothing_is_lost_where_a_batch_must_not_be_written(log: EmbeddedLog, worker: Worker) -> None:
    """The partition stops at the record to blame with all before it on disk; when it is mended, the rest follows."""
    records = await fetched(log, 0)
    with pytest.MonkeyPatch.context() as patch:
        plant_bug(patch)
        for start in (0, STOPS_AT):  # found once more, by a new try
            with pytest.raises(PartitionStoppedError) as stopped:
                await worker.apply(records[start:], start, 7)
            worker.open()

            assert f"offset {STOPS_AT} (SET) cannot be applied: {REASON}" == str(stopped.value)
            assert (STOPS_AT, InvariantError) == (stopped.value.offset, type(stopped.value.cause))
            assert (STOPS_AT, b"3") == (worker.machine.position.next_offset, worker.machine.read(b"GET", [b"n"]))
            assert worker.machine.read(b"GET", [b"bad"]) is None
    await worker.apply(records[STOPS_AT:], STOPS_AT, 7)

    assert [7, b"6", POISON] == [
        worker.machine.next_offset,
        *(worker.machine.read(b"GET", [k]) for k in (b"n", b"bad")),
    ]
    worker.close()


async def test_a_batch_of_which_no_record_is_to_blame_stops_the_partition_behind_it(
    log: EmbeddedLog, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each record alone can be written, they are, one by one; what was found of them together is the reason."""
    commit = worker.machine.commit

    def fail_once(fingerprint: bytes | None) -> None:
        monkeypatch.setattr(worker.machine, "commit", commit)
        raise InvariantError("of all of them")

    monkeypatch.setattr(worker.machine, "commit", fail_once)
    with pytest.raises(InvariantError, match=r"^of all of them$"):
        await worker.apply(await fetched(log, 0), 0, 7)

    assert (7, b"6") == (worker.machine.position.next_offset, worker.machine.read(b"GET", [b"n"]))
    worker.close()


@pytest.mark.parametrize(("records", "to_offset"), [(7, 6), (0, -1)])
async def test_a_reader_that_stands_before_what_it_gave_is_not_believed(
    log: EmbeddedLog, worker: Worker, records: int, to_offset: int
) -> None:
    """The position behind a fetch is behind its last record: otherwise nothing of it is applied."""
    with pytest.raises(InvariantError, match=f"it stands at offset {to_offset}"):
        await worker.apply((await fetched(log, 0))[:records], 0, to_offset)

    assert 0 == worker.machine.next_offset
    worker.close()
