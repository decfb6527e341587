"""taskiq: tasks that go through a stream while the server goes away, and their results; a worker is a process."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import redis
from taskiq import SendTaskError
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from tests.applications.outage_programs.working import (
    ENTRIES,
    KILLS,
    POLL_S,
    TIMEOUT_S,
    URL,
    insist,
    note,
    numbers,
    report,
    wait_for_outage,
)

AT_ONCE: Final = 4
STREAM, GROUP = "tasks", "workers"
_IDLE_MS: Final = 2000
_NUDGE_S: Final = 0.3
broker: Final = RedisStreamBroker(
    URL, queue_name=STREAM, consumer_group_name=GROUP, consumer_id="0", xread_block=100, idle_timeout=_IDLE_MS
).with_result_backend(RedisAsyncResultBackend(URL))


@broker.task("work")
async def work(number: int) -> int:
    """Work."""
    await asyncio.sleep(POLL_S / 4)
    note(str(number))
    return number


@broker.task("nothing")
async def nothing() -> None:
    """What makes a worker look at old tasks: it does so whenever it gets new ones."""


async def main() -> None:
    """Send tasks, and wait until all of them are done and acknowledged."""
    client = redis.Redis.from_url(URL)
    with _worker():
        await broker.startup()
        tasks = [await _insist(work.kicker(), number) for number in range(ENTRIES)]
        await asyncio.to_thread(wait_for_outage, KILLS)
        deadline = time.monotonic() + TIMEOUT_S
        while len(numbers()) < ENTRIES or _pending(client):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{sorted(numbers())} are done, {_pending(client)} pending")
            await _insist(nothing.kicker())
            await asyncio.sleep(_NUDGE_S)
        results = [(await task.get_result()).return_value if await task.is_ready() else None for task in tasks]
        await broker.shutdown()
    report(pending=_pending(client), results=results)


@contextlib.contextmanager
def _worker() -> Iterator[None]:
    """A worker, which starts its process anew when that ends in the outage; asked to stop after one it may hang."""
    options = ["--workers", "1", "--max-async-tasks", str(AT_ONCE)]
    command = [sys.executable, "-m", "taskiq", "worker", f"{__spec__.name}:broker", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as process:
        try:
            yield
        finally:
            process.kill()


async def _insist(kicker: Any, *args: int) -> Any:
    """Send a task, perhaps twice: nobody knows whether one was sent that was not answered."""
    while True:
        with contextlib.suppress(SendTaskError):
            return await kicker.kiq(*args)
        await asyncio.sleep(POLL_S)


def _pending(client: Any) -> int:
    (group,) = insist(lambda: client.xinfo_groups(STREAM))
    return int(group["pending"])


if __name__ == "__main__":
    asyncio.run(main())
