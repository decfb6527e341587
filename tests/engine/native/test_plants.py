"""Differences that are planted in the twins of the part in C are found by comparing the two."""

from __future__ import annotations

from typing import Any

import pytest

from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_records import RankCounts
from engine.batch.transaction import Transaction
from engine.layouts import DEFAULT_LAYOUT
from engine.model import NONE
from engine.tables.dedup import Deduplicator
from engine.types import lists, sets
from engine.types.hash import hash_fields
from engine.types.string import strings
from engine.types.zset import zsets
from engine.values.replies import Reply
from tests.engine.harness import NOW_MS
from tests.engine.native.twins import compare
from tests.engine.native.usual_streams import of_kinds

pytestmark = pytest.mark.layout(DEFAULT_LAYOUT)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Transaction, "put_string"),
        (Transaction, "expire"),
        (hash_fields, "put_single"),
        (hash_fields, "put"),
        (hash_fields, "put_one"),
        (hash_fields, "remove"),
        (strings, "increment"),
        (strings, "put_until"),
        (lists, "push_head"),
        (lists, "push_tail"),
        (lists, "trim"),
        (sets, "add"),
        (sets, "remove"),
        (zsets, "add"),
        (zsets, "add_single"),
        (zsets, "increment"),
        (zsets, "remove"),
    ],
    ids=str,
)
def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """If a twin did anything else than the part in C, however small, these comparisons would show it."""
    real = getattr(owner, name)

    def other(*args: Any) -> Any:
        result = real(*args)
        key = args[0]._touched[-1]
        if key.type != NONE:
            key.expire_ms, key.changed = NOW_MS + 10**9, True
        return result

    monkeypatch.setattr(owner, name, other)

    with pytest.raises(AssertionError, match="step"):
        compare(of_kinds(0, 400), [50])


def test_another_record_of_an_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it would be if ids were remembered in another way."""
    real = Deduplicator.remember

    def other(dedup: Deduplicator, event_id: bytes, now_ms: int, offset: int, reply: Reply) -> None:
        real(dedup, event_id, now_ms, offset + 1, reply)

    monkeypatch.setattr(Deduplicator, "remember", other)

    with pytest.raises(AssertionError, match="step"):
        compare(of_kinds(0, 100), [50])


@pytest.mark.damaging
def test_other_rank_counts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it would be if a twin counted the members of a large sorted set in another way."""
    real = rank_counts.update

    def other(ranks: RankCounts, changes: dict[bytes, int], size: int, walk: Any) -> None:
        real(ranks, changes, size, walk)
        ranks.put(b"\x03" + min(changes), b"")

    monkeypatch.setattr(rank_counts, "PLAIN_SIZE_MAX", 8)
    monkeypatch.setattr(rank_counts, "update", other)

    with pytest.raises(AssertionError, match="step"):
        compare(of_kinds(0, 400), [50])
