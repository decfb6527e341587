"""SAQ: jobs that are enqueued while the server goes away, and their worker."""

from __future__ import annotations

import asyncio
import contextlib
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
    noted,
    report,
    wait_for_outage,
)

JOBS: Final = 60


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
        later = int(now_seconds()) + 1 if number % 7 == 0 else 0
        job = {"key": str(number), "number": number, "scheduled": later, "retries": 5, "timeout": 5}
        await _insist(partial(queue.enqueue, "work", **job))
        await asyncio.sleep(POLL_S / 2)
    await asyncio.to_thread(wait_for_outage)
    async with asyncio.timeout(TIMEOUT_S):
        # One that its sweeper took for stuck, and that was done meanwhile, comes back once more.
        while len(set(noted())) < JOBS or any(left := await _left(queue)):  # noqa: ASYNC110  it is another's state
            await asyncio.sleep(POLL_S)
    await worker.stop()
    await working
    await queue.disconnect()
    report(left=left)


async def _left(queue: Queue) -> list[int]:
    return [await _insist(partial(queue.count, kind)) for kind in ("queued", "active", "incomplete")]


async def _insist(step: Callable[[], Awaitable[Any]]) -> Any:
    """A job that has a key is enqueued once, however often it is asked for."""
    while True:
        with contextlib.suppress(*AWAY):
            return await step()
        await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    asyncio.run(main())
