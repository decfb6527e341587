"""Freed memory goes back to the kernel."""

from __future__ import annotations

import os
from typing import Final

import pytest

from ingest.resp import heap
from ingest.resp.heap import GROWN_BYTES, Heap
from ingest.resp.memory import memory_use

BLOCK_BYTES: Final = 20_000  # too small to be mapped by itself


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_LOOK_SECONDS", 0.0)


def fragmented() -> list[bytes]:
    """Blocks between which twice `GROWN_BYTES` were in use, and are free: glibc cannot shrink the heap by itself."""
    blocks = [os.urandom(BLOCK_BYTES) for _ in range(2 * GROWN_BYTES // BLOCK_BYTES)]
    return blocks[::50]


def test_what_is_free_between_blocks_in_use_is_given_back() -> None:
    """The process is small again; what is still in use stays as it was."""
    subject = Heap()
    kept = fragmented()
    copies = [bytes(bytearray(block)) for block in kept]
    large = memory_use().rss_bytes
    subject.look()
    small = memory_use().rss_bytes

    assert small < large - GROWN_BYTES
    assert copies == kept


def test_a_process_that_has_not_grown_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given back while less than the bound has come, nor while all of it is in use."""
    subject = Heap()
    calls: list[None] = []
    monkeypatch.setattr(subject, "give_back", lambda: calls.append(None))
    subject.look()
    in_use = bytearray(2 * GROWN_BYTES)
    subject.look()

    assert [] == calls
    assert 2 * GROWN_BYTES == len(in_use)
