"""Dead letters of the embedded log: kept for ever, unless the settings say how many and how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ingest.cleaning.retention import Retention, RetentionSettings
from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from slotlog.log.embedded.embedded_log import EmbeddedLog

DAY_MS = 86_400_000


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """A log of two partitions with 2,500 dead letters in the first and 3 in the second, a second apart."""
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="t", partitions=2)
    await log.start()
    letters = [DeadLetter("t", 0, 2 * n, 1000 * n, "bad", None, b"x") for n in range(2500)]
    letters += [DeadLetter("t", 1, n, 1000 * n, "bad", None, b"x") for n in range(3)]
    await EmbeddedDeadLetters(log).store(letters)
    yield log
    await log.close()


async def offsets(log: EmbeddedLog, partition: int) -> list[int]:
    """Of the letters that are left."""
    return [letter.offset for letter in await EmbeddedDeadLetters(log).read(9999) if letter.partition == partition]


@pytest.mark.parametrize(
    ("settings", "wall_ms", "left"),
    [
        (RetentionSettings(), 10**12, (2500, 3)),
        (RetentionSettings(dead_letters_max=2500), 10**12, (2500, 3)),
        (RetentionSettings(dead_letters_max=2), 0, (2, 2)),
        (RetentionSettings(days_max=1), DAY_MS + 1_000_000, (1500, 0)),
        (RetentionSettings(dead_letters_max=2000, days_max=1), DAY_MS + 1_000_000, (1500, 0)),
        (RetentionSettings(dead_letters_max=1000, days_max=1), DAY_MS + 1_000_000, (1000, 0)),
    ],
)
async def test_the_oldest_go(
    log: EmbeddedLog, settings: RetentionSettings, wall_ms: int, left: tuple[int, int]
) -> None:
    """Of each partition, those that are too many or too old: the newest stay."""
    gone = await Retention(log, [0, 1], settings).forget(wall_ms)

    assert left == (len(await offsets(log, 0)), len(await offsets(log, 1)))
    assert 2503 - sum(left) == gone
    assert [2 * n for n in range(2500 - left[0], 2500)] == await offsets(log, 0)


async def test_it_is_said(log: EmbeddedLog) -> None:
    """How many went, and which offsets, stands in the log, a line for each partition; nothing when nothing went."""
    retention = Retention(log, [0, 1], RetentionSettings(dead_letters_max=2))
    with capture_logs() as first:
        await retention.forget(0)
    with capture_logs() as second:
        await retention.forget(0)

    facts = [(line["partition"], line["count"], line["first_offset"], line["last_offset"]) for line in first]
    assert [(0, 2498, 0, 4994), (1, 1, 0, 0)] == facts
    assert [] == second


async def test_only_owned_partitions(log: EmbeddedLog) -> None:
    """Letters of a partition that another process applies stay."""
    await Retention(log, [1], RetentionSettings(dead_letters_max=1)).forget(0)

    assert (2500, 1) == (len(await offsets(log, 0)), len(await offsets(log, 1)))
