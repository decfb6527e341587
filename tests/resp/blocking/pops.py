"""Pops that are under way for clients that wait."""

from __future__ import annotations

from tests.resp.harness import Live, until


async def settled(live: Live) -> None:
    """Wait until no pop is under way: each client that waits has heard of its own, which is later than its event."""
    await until(lambda: not any(waiter.popping for waiter in live.server.blocked.waiters))
