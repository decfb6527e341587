"""Computes how long to wait for a store that is behind with its compactions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stamina import Attempt, retry_context

from engine.errors import StoreBusyError


def patience() -> AsyncIterator[Attempt]:
    """Attempts at a write while RocksDB is behind with its compactions: StoreBusyError after half a minute of them."""
    return retry_context(StoreBusyError, attempts=None, timeout=30.0, wait_initial=0.01, wait_max=1.0)
