"""Slots beyond the checked examples of test_vectors.py: hash tags, and how partitions share the slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import partition_of, slot


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"{user1000}.following", b"user1000"),
        (b"{user1000}.followers", b"user1000"),
        (b"foo{bar}{zap}", b"bar"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"a}b{c}", b"c"),
    ],
)
def test_a_hash_tag_stands_for_its_key(key: bytes, hashed: bytes) -> None:
    """What stands between the first brace and the first closing one after it decides the slot."""
    assert slot(hashed) == slot(key)


@pytest.mark.parametrize("key", [b"foo{}{bar}", b"{}", b"foo{bar", b"foo}bar", b"}{", b"{"])
def test_without_a_tag_the_whole_key_counts(key: bytes) -> None:
    """An empty or unclosed tag is none: then every byte of the key counts."""
    assert slot(key) != slot(key + b"x")
    assert slot(key) != slot(b"bar")


@given(st.binary())
def test_every_key_has_a_slot(key: bytes) -> None:
    """Any bytes are a key, and its slot is in range."""
    assert 0 <= slot(key) < SLOTS


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 16, 100, 16384])
def test_partitions_hold_contiguous_ranges(partitions: int) -> None:
    """Partitions hold contiguous ranges in order, none is empty, and sizes differ by one at most."""
    owners = [partition_of(number, partitions) for number in range(SLOTS)]
    sizes = [owners.count(partition) for partition in range(partitions)] if partitions <= 100 else [1]

    assert sorted(owners) == owners
    assert set(range(partitions)) == set(owners)
    assert max(sizes) - min(sizes) <= 1
