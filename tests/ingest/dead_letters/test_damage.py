"""Dead letters of the embedded log, and the marks that they were sent again, are held against their checksums."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.embedded_finding import EmbeddedDeadLetterSearch
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.dead_letters.found import Again, Wanted
from slotlog.errors import LogDamagedError
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.proof.scan import scan_letters

LETTERS = [DeadLetter("t", 0, offset, 1000 + offset, "no event", None, b"%d" % offset) for offset in range(3)]
AGAIN = [Again(letter, Entry(1, None, letter.value or b"")) for letter in LETTERS]


@pytest.fixture
async def letters(local_log: EmbeddedLog) -> EmbeddedDeadLetterSearch:
    """Three letters, of which the first two were sent again."""
    await EmbeddedDeadLetters(local_log).store(LETTERS)
    letters = EmbeddedDeadLetterSearch(local_log)
    await letters.send(AGAIN[:2])
    return letters


def change(path: Path, statement: str) -> None:
    """Change the file behind the log's back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


LETTER = "the dead letter of partition 0, offset 1 is damaged"
MARK = "the mark that the dead letter of partition 0, offset 1 was sent again is damaged"
CHANGES = {
    "UPDATE dead_letters SET value = x'00' WHERE offset = 1": LETTER,
    "UPDATE dead_letters SET reason = 'another' WHERE offset = 1": LETTER,
    "UPDATE dead_letters SET time_ms = 'soon' WHERE offset = 1": LETTER,
    "UPDATE dead_letters SET sum = NULL WHERE offset = 1": LETTER,
    "UPDATE redriven SET time_ms = 1 WHERE offset = 1": MARK,
    "UPDATE redriven SET to_offset = 2 WHERE offset = 1": MARK,
    "UPDATE redriven SET to_partition = 'x' WHERE offset = 1": MARK,
    "UPDATE redriven SET sum = NULL WHERE offset = 1": MARK,
}


async def test_sound(letters: EmbeddedDeadLetterSearch, local_path: Path) -> None:
    """What is as it was written is given, by pages as by the newest, and nothing is damaged."""
    newest = await letters.newest(2)

    assert [(2, None), (1, (1, 1))] == [(each.offset, each.redriven) for each in newest]
    assert newest[::-1] == [found.summary for found in (await letters.page(Wanted()))[1:]]
    with closing(sqlite3.connect(local_path)) as connection:
        assert [] == list(scan_letters(connection))


@pytest.mark.parametrize("statement", CHANGES)
async def test_damaged(letters: EmbeddedDeadLetterSearch, local_path: Path, statement: str) -> None:
    """A damaged letter, or mark of one, is named by whoever reads it, and found by a scrub."""
    change(local_path, statement)

    for reading in (letters.newest(2), letters.page(Wanted())):
        with pytest.raises(LogDamagedError, match=CHANGES[statement]):
            await reading
    assert [2] == [found.dead_letter.offset for found in await letters.page(Wanted(0, 2, 2))]
    with closing(sqlite3.connect(local_path)) as connection:
        assert [("letter", 0, 1)] == [(each.kind, each.partition, each.offset) for each in scan_letters(connection)]


async def test_nothing_is_sent_by_a_damaged_mark(
    letters: EmbeddedDeadLetterSearch, local_log: EmbeddedLog, local_path: Path
) -> None:
    """Whether a letter was sent again is not known from a damaged mark: the redrive says so, and appends nothing."""
    change(local_path, "UPDATE redriven SET to_offset = 7 WHERE offset = 1")

    with pytest.raises(LogDamagedError, match=MARK):
        await letters.send([AGAIN[2], AGAIN[1]])
    assert 2 == await local_log.end_offset(1)
    assert [None, (1, 2)] == await letters.send([AGAIN[0], AGAIN[2]])
