"""Integers, scores and key ranges at their edges. The checked examples are in test_vectors.py."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.values.encoding import pack_score, pack_u64, parse_score, parse_u64, prefix_end

EDGES = sorted({0, *(2**power + delta for power in (8, 16, 32, 63) for delta in (-1, 0, 1)), 2**64 - 1})


def test_integers_at_the_edges_of_their_bytes() -> None:
    """Unsigned integers take eight bytes, parse back, and sort as their bytes do."""
    packed = [pack_u64(value) for value in EDGES]

    assert EDGES == [parse_u64(data) for data in packed]
    assert sorted(packed) == packed
    assert {8} == set(map(len, packed))


@pytest.mark.parametrize("value", [-1, 2**64])
def test_integers_out_of_range_are_refused(value: int) -> None:
    """What 64 unsigned bits cannot hold is an error, never cut off."""
    with pytest.raises(Exception, match="int"):
        pack_u64(value)


@given(st.floats(allow_nan=False))
def test_a_score_parses_back(score: float) -> None:
    """Every number but NaN comes back equal, denormal and infinite ones too."""
    assert score == parse_score(pack_score(score))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_scores_compare_as_their_bytes(one: float, other: float) -> None:
    """Two packed scores compare as the numbers do, equal ones included."""
    assert ((one < other), (one == other)) == (
        pack_score(one) < pack_score(other),
        pack_score(one) == pack_score(other),
    )


def test_both_zeros_are_one_score() -> None:
    """-0.0 is stored as +0.0, and comes back as that."""
    assert pack_score(0.0) == pack_score(-0.0)
    assert 1.0 == math.copysign(1.0, parse_score(pack_score(-0.0)))


@pytest.mark.parametrize("nan", [math.nan, -math.nan])
def test_nan_is_never_packed(nan: float) -> None:
    """NaN has no place in the order."""
    with pytest.raises(ValueError, match="NaN cannot be stored"):
        pack_score(nan)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"a", b"b"), (b"a\xff", b"b"), (b"a\xff\xff", b"b"), (b"\x00", b"\x01"), (b"\xfe\xff", b"\xff")],
)
def test_the_end_of_a_prefix(prefix: bytes, end: bytes) -> None:
    """The end of a prefix's range is the prefix with its last byte that can grow grown, the rest cut off."""
    assert end == prefix_end(prefix)


@given(st.binary(max_size=4).filter(lambda prefix: prefix.strip(b"\xff") != b""), st.binary(max_size=6))
def test_a_range_of_a_prefix_holds_its_keys_alone(prefix: bytes, key: bytes) -> None:
    """A key lies in the range exactly when it starts with the prefix."""
    assert key.startswith(prefix) == (prefix <= key < prefix_end(prefix))
    assert prefix <= prefix + key < prefix_end(prefix)


@pytest.mark.parametrize("prefix", [b"", b"\xff", b"\xff\xff"])
def test_a_prefix_without_an_end_is_refused(prefix: bytes) -> None:
    """No key lies above all that start with nothing or with 0xff bytes alone."""
    with pytest.raises(ValueError, match="has no end"):
        prefix_end(prefix)
