"""Times of the embedded log, which go back only where an operator says so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotlog import clock
from slotlog.errors import LogDamagedError
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.proof.scan import scan_letters
from tests.slotlog.log.reading import last_record, read


def at(time_ms: int) -> Entry:
    """A record with that time."""
    return Entry(0, None, b"x", time_ms)


async def test_a_time_that_was_set_back_stays_back(local_log: EmbeddedLog) -> None:
    """The record that is appended with it has the given time, later ones theirs; other partitions keep their time."""
    soon_ms = clock.now_ms() + 50_000
    await local_log.append([at(1000), at(soon_ms), Entry(1, None, b"x", soon_ms)])
    position = (await local_log.set_time_back(0, 2000, [at(2000)]))[0]
    await local_log.append([at(1500), Entry(0, None, b"x")])
    records = (await read(local_log.reader({0: 0}), 5))[0]

    assert (0, 2, 2000) == position
    assert [1000, soon_ms, 2000, 2000] == [record[1] for record in records[:4]]
    assert soon_ms - 60_000 < records[4][1] < soon_ms
    await local_log.append([Entry(1, None, b"x", 5)])
    assert soon_ms == (await read(local_log.reader({1: 1}), 1))[1][0][1]


async def test_offsets_are_found_by_time_across_it(local_log: EmbeddedLog) -> None:
    """The first record at a time or later is the first one in the log, on whichever side of the seam it stands."""
    for time_ms in (10, 20, 30):
        await local_log.append([at(time_ms)])
    await local_log.set_time_back(0, 15, [at(15)])
    await local_log.set_time_back(0, 12, [at(12)])
    await local_log.append([at(40)])
    times = [record[1] for record in (await read(local_log.reader({0: 0}), 6))[0]]

    assert [10, 20, 30, 15, 12, 40] == times
    expected = [next((offset for offset, time in enumerate(times) if time >= wanted), None) for wanted in range(1, 45)]
    assert expected == [await local_log.offset_at(0, wanted) for wanted in range(1, 45)]


async def test_setting_time_ahead_changes_nothing(local_log: EmbeddedLog) -> None:
    """A time that is no step back leaves the log's own, and no seam."""
    await local_log.append([at(1000)])
    await local_log.set_time_back(0, 2000, [at(500)])

    assert 1000 == (await last_record(local_log))[1]
    assert 0 == await local_log.offset_at(0, 1000)


@pytest.mark.parametrize("column", ["offset", "sum"])
async def test_a_damaged_mark(local_log: EmbeddedLog, local_path: Path, column: str) -> None:
    """Where times were set back is not guessed: who asks for a time hears that the mark is damaged, as does a scan."""
    await local_log.append([at(1000)])
    await local_log.set_time_back(0, 500, [at(500)])
    with closing(sqlite3.connect(local_path)) as connection:
        assert [] == list(scan_letters(connection))
        connection.execute(f"UPDATE set_backs SET {column} = 7")  # noqa: S608
        connection.commit()
        (damage,) = scan_letters(connection)

    assert ("time", 0, 7 if column == "offset" else 1) == (damage.kind, damage.partition, damage.offset)
    with pytest.raises(LogDamagedError, match="times of partition 0 of the log were set back at offset"):
        await local_log.offset_at(0, 500)
