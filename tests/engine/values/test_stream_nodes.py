"""Nodes of streams: what their elements take is what a listpack of them takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.values.rdb.compact import listpack
from engine.values.stream_nodes import NODE_BYTES, NODE_ENTRIES, Node, element_bytes
from engine.values.stream_records import ID_BYTES

FRAME_BYTES = len(listpack([]))


@given(st.one_of(st.integers(-(1 << 64), 1 << 64).map(lambda number: b"%d" % number), st.binary(max_size=100)))
def test_elements_take_what_a_listpack_of_them_has_more(text: bytes) -> None:
    """Integers, what nearly is one, and bytes."""
    assert len(listpack([text])) - FRAME_BYTES == element_bytes(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        *(b"x" * (1 << bits) for bits in (6, 7, 12, 14)),
        *(b"%d" % (sign << bits) for bits in range(64) for sign in (1, -1)),
    ],
)
def test_elements_at_the_bounds(text: bytes) -> None:
    """Each form of an element begins somewhere."""
    for each in (text, text[:-1], b"%d" % (int(text) - 1) if text[:1].isdigit() else text):
        assert len(listpack([each])) - FRAME_BYTES == element_bytes(each)


def test_a_node_ends_at_its_entries_or_its_bytes() -> None:
    """At 100 entries it is closed; before, where the next one's texts do not fit; the first entry always does."""
    short, long = Node(bytes(ID_BYTES)), Node(bytes(ID_BYTES))
    taken = [short.take(number.to_bytes(ID_BYTES), [b"f", b"v"]) for number in range(1, NODE_ENTRIES + 2)]

    assert ([True] * NODE_ENTRIES + [False], NODE_ENTRIES, True) == (taken, short.count, short.is_closed)
    assert NODE_ENTRIES.to_bytes(ID_BYTES) == short.last_id
    assert [True, False, False] == [
        long.take(number.to_bytes(ID_BYTES), texts)
        for number, texts in ((1, [b"f", b"v" * NODE_BYTES]), (2, [b"f", b"v"]), (3, [b"f", b"v"]))
    ]
    assert (1, True) == (long.count, long.is_closed)
