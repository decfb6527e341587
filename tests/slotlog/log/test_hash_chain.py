"""The hash chain: every record before an offset decides the head there."""

from __future__ import annotations

from hashlib import sha256
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotlog.log.hash_chain import HEAD_BYTES, first_head, head_behind
from slotlog.log.log import LogRecord

RECORDS: list[LogRecord] = [(0, 1000, None, b"ab"), (1, 1001, b"ke", b"y"), (3, 1001, b"", None), (4, -5, b"k", b"")]


def test_the_bytes() -> None:
    """Heads are the hashes that the module's head draws, byte for byte."""
    root = sha256(b"slotlog chain 1" + pack(">Q", 0)).digest()
    behind = sha256(root + pack(">Qqi", 0, 1000, -1) + pack(">i", 2) + b"ab").digest()
    second = sha256(behind + pack(">Qqi", 1, 1001, 2) + b"ke" + pack(">i", 1) + b"y").digest()

    assert (root, behind, second) == (first_head(0), head_behind(root, RECORDS[:1]), head_behind(root, RECORDS[:2]))
    assert ("f1d24abf", "b9269b3f") == (root.hex()[:8], behind.hex()[:8])
    assert HEAD_BYTES == len(root)


def test_piece_by_piece() -> None:
    """It does not matter in how many pieces the records come."""
    whole = head_behind(first_head(0), RECORDS)

    for cut in range(len(RECORDS) + 1):
        assert whole == head_behind(head_behind(first_head(0), RECORDS[:cut]), RECORDS[cut:])


@pytest.mark.parametrize(
    "other",
    [
        [],
        RECORDS[:3],
        RECORDS[1:],
        [*RECORDS, (5, 0, None, b"")],
        [RECORDS[1], RECORDS[0], *RECORDS[2:]],
        [(0, 1000, b"", b"ab"), *RECORDS[1:]],
        [(0, 1000, None, b"aB"), *RECORDS[1:]],
        [(0, 1001, None, b"ab"), *RECORDS[1:]],
        [*RECORDS[:1], (1, 1001, b"key", b""), *RECORDS[2:]],
        [*RECORDS[:2], (2, 1001, b"", None), *RECORDS[3:]],
        [*RECORDS[:2], (3, 1001, b"", b""), *RECORDS[3:]],
    ],
)
def test_every_change_is_another_head(other: list[LogRecord]) -> None:
    """A record more or less, two exchanged, another time, offset, key or value, bytes moved from key to value."""
    assert head_behind(first_head(0), RECORDS) != head_behind(first_head(0), other)
    assert first_head(0) != first_head(1)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(-5, 2**40), st.none() | st.binary(), st.none() | st.binary())
    ),
    st.data(),
)
def test_no_two_lists_have_one_head(records: list[LogRecord], draw: st.DataObject) -> None:
    """Whatever stands in the records: those of another list have another head."""
    other = draw.draw(st.permutations(records)) if records else [(0, 0, None, None)]

    assert (list(other) == records) == (head_behind(first_head(0), records) == head_behind(first_head(0), other))
