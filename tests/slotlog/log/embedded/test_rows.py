"""Rows that are made in C are those that Python makes, seals and positions included."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotlog.log import Entry, RecordPosition
from slotlog.log.embedded import writer
from slotlog.log.embedded.file import chain, file
from slotlog.log.embedded.file.heads import head_of, set_head
from tests.engine.native.twins import part_in_c

_BYTES: Final = st.binary(max_size=80) | st.sampled_from([31, 32, 255, 256, 65_535, 65_536]).map(
    lambda size: b"\xa7" * size
)
_TIMES: Final = st.none() | st.sampled_from([5, 1 << 31, 1 << 33])
_ENTRIES: Final = st.lists(
    st.builds(Entry, st.sampled_from([1, 1, 0]), st.none() | _BYTES, _BYTES, _TIMES), min_size=1, max_size=6
)
_OFFSETS: Final = st.sampled_from([0, 1, 127, 128, 255, 256, 65_534, (1 << 32) - 2, (1 << 47) - 10])


@pytest.fixture(autouse=True)
def _python_afterwards() -> Iterator[None]:
    """Another test's logs go by what they went by."""
    before = writer._rows_of
    yield
    writer.choose(before)


def appended(path: Path, entries: Sequence[Entry], begin: int, now: int, *, natively: bool) -> tuple[object, ...]:
    """All that an append to a new log at an offset leaves, and says."""
    path.unlink(missing_ok=True)
    writer.choose(part_in_c().rows_of if natively else None)
    with closing(file.connect(path, create=True)) as connection, pytest.MonkeyPatch.context() as patch:
        file.create_tables(connection, "t", 2)
        connection.execute("UPDATE log SET id = x'00'")
        for partition, offset in ((0, 3), (1, begin)):
            head = head_of(connection, partition)
            set_head(connection, partition, head._replace(next_offset=offset, link=b"abcd", begin_link=b"abcd"))
        patch.setattr(writer, "stamp_ms", lambda: now)
        positions = writer.append_rows(connection, entries)
        rows = connection.execute("SELECT * FROM records ORDER BY position").fetchall()
        return positions, list(map(type, positions)), rows, head_of(connection, 0), head_of(connection, 1)


@settings(max_examples=25)
@given(_ENTRIES, _OFFSETS, st.sampled_from([0, 127, 128, 65_536, 1_700_000_000_000]))
def test_any_entries_make_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], begin: int, now: int
) -> None:
    """Of two partitions, with keys and without, of any size, with times of their own and without, at any offset."""
    path = tmp_path_factory.getbasetemp() / "rows.db"
    alone, natively = (appended(path, entries, begin, now, natively=natively) for natively in (False, True))

    assert alone == natively


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(0, None, b"a"), Entry(1, None, b"b")],
        [Entry(1, None, b"a", 5)],
        [Entry(1, b"", bytearray(b"a"))],  # type: ignore[arg-type]
        (Entry(1, None, b"a"),),
    ],
    ids=["partitions", "a time", "a bytearray", "a tuple"],
)
def test_what_is_unusual_is_left_to_python(entries: Any) -> None:
    """Entries of several partitions, with times of their own, or of other types."""
    assert None is part_in_c().rows_of(entries, 1, 0, 5, 0, RecordPosition)


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If Python sealed rows in another way, the comparison would show it."""
    entries = [Entry(1, b"ab", b"value")]
    natively = appended(tmp_path / "rows.db", entries, 0, 5, natively=True)
    monkeypatch.setattr(writer, "seals_of", lambda before, records: chain.seals_of(b"abce", records))

    assert appended(tmp_path / "rows.db", entries, 0, 5, natively=False) != natively


def test_rows_leave_nothing_behind() -> None:
    """What is made goes with its list."""
    rows_of = part_in_c().rows_of
    entries = [Entry(1, b"ab", b"v" * 700)] * 50
    rows_of(entries, 1, 1000, 5, 0, RecordPosition)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        rows_of(entries, 1, 1000, 5, 0, RecordPosition)

    assert sys.getallocatedblocks() - before < 200
