"""A wakeup wakes those who wait for the next event, once."""

from __future__ import annotations

import asyncio

from resp.writes.wakeup import Wakeup


async def test_all_who_wait_are_woken_once() -> None:
    """What happens wakes all who wait for it then, and not who waits after it."""
    wakeup, woken = Wakeup(), []

    async def wait(name: str) -> None:
        await wakeup.wait()
        woken.append(name)

    early = [asyncio.create_task(wait("first")), asyncio.create_task(wait("second"))]
    await asyncio.sleep(0)
    wakeup.wake()
    late = asyncio.create_task(wait("third"))
    await asyncio.gather(*early)

    assert ["first", "second"] == woken
    assert not late.done()
    late.cancel()


async def test_who_was_cancelled_keeps_nobody_from_being_woken() -> None:
    """A wait that was cancelled is passed over."""
    wakeup = Wakeup()
    cancelled, other = (asyncio.create_task(wakeup.wait()) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    wakeup.wake()
    await other

    assert (True, True) == (cancelled.cancelled(), other.done())
