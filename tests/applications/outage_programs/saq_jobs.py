"""SAQ: jobs that are enqueued while the server goes away, and their worker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from saq import Queue, Worker
from saq.utils import now_seconds

from tests.applications.outage_programs.working import (
    AWAY,
    POLL_S,
    TIMEOUT_S,
    URL,
    note,
    numbers,
    report,
    wait_for_outage,
)

JOBS: Final = 60

PATIENCE_S: Final = 20.0
"""Then a job is lost: its sweeper takes one out of the queue before it puts it back, and may break off between."""


async def work(context: dict[str, Any], *, number: int) -> int:
    """Work; every tenth job fails at first, and is retried."""
    await asyncio.sleep(POLL_S)
    if number % 10 == 0 and context["job"].attempts == 1:
        raise RuntimeError("not yet")
    note(str(number))
    return number


async def main() -> None:
    """Enqueue jobs, some of them for later, and wait until all of them are done."""
    queue = Queue.from_url(URL)
    worker = Worker(queue, [work], concurrency=2, dequeue_timeout=1, timers={"schedule": 1, "sweep": 1})
    working = asyncio.create_task(worker.start())
    for number in range(JOBS):
        await _enqueue(queue, number, later_s=1 if number % 7 == 0 else 0)
        await asyncio.sleep(POLL_S / 2)
    await asyncio.to_thread(wait_for_outage)
    again, given_up_at = 0, time.monotonic() + PATIENCE_S
    async with asyncio.timeout(TIMEOUT_S):
        # One that its sweeper took for stuck, and that was done meanwhile, comes back once more.
        while len(numbers()) < JOBS or any(left := await _left(queue)):
            await asyncio.sleep(POLL_S)
            if not again and time.monotonic() > given_up_at:
                again = sum([await _enqueue(queue, number) for number in sorted({*range(JOBS)} - numbers())])
    await worker.stop()
    await working
    await queue.disconnect()
    report(left=left, again=again)


async def _enqueue(queue: Queue, number: int, later_s: int = 0) -> bool:
    """Enqueue a job, unless it is there: one that has a key is enqueued once, however often it is asked for."""
    scheduled = int(now_seconds()) + later_s if later_s else 0
    job = {"key": str(number), "number": number, "scheduled": scheduled, "retries": 5, "timeout": 5}
    return await _insist(partial(queue.enqueue, "work", **job)) is not None


async def _left(queue: Queue) -> list[int]:
    return [await _insist(partial(queue.count, kind)) for kind in ("queued", "active", "incomplete")]


async def _insist(step: Callable[[], Awaitable[Any]]) -> Any:
    """Do it, when the server is back."""
    while True:
        with contextlib.suppress(*AWAY):
            return await step()
        await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    asyncio.run(main())
