"""Computes how long to wait for a store that is behind with its compactions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stamina import Attempt, retry_context

from engine.errors import StoreBusyError


def patience() -> AsyncIterator[Attempt]:
    """Yield attempts at a write while RocksDB is behind with compactions; StoreBusyError after half a minute."""
    return retry_context(StoreBusyError, attempts=None, timeout=30.0, wait_initial=0.01, wait_max=1.0)
