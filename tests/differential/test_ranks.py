"""Sorted sets with rank counts, which the short sequences of the other tests are too small for."""

from __future__ import annotations

import pytest

from engine.batch.ranks import rank_counts
from engine.layouts.layout import Form
from engine.types.zset import zset_ranges
from tests.differential.campaign import first_difference
from tests.differential.pair import Oracles, new_tally


@pytest.mark.form(Form.RANK_COUNTS)
@pytest.mark.timeout(600)
def test_replies_are_the_oracles_with_rank_counts(oracles: Oracles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where three members are enough for counts, and two for another block: same replies, same contents at the end."""
    for name in ("PLAIN_SIZE_MAX", "BLOCK_MAX", "GROUP_MAX"):
        monkeypatch.setattr(rank_counts, name, 2)
    monkeypatch.setattr(zset_ranges, "_WALKED_MAX", 0)

    difference = first_difference("sorted-set", oracles, new_tally(), 4000, derandomize=True)
    if difference:
        pytest.fail(difference, pytrace=False)
