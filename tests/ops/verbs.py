"""Short ways to use the command line and a running service's HTTP face."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from typer.testing import CliRunner, Result

from ops.cli import app
from tests.faults.service import ServiceProcess

_PATIENCE_SECONDS = 60.0


def run(*words: object) -> Result:
    """One verb, in this process; beside a test's event loop in a thread, as verbs have loops of their own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    invoke = partial(CliRunner().invoke, app, [str(word) for word in words])
    try:
        if asyncio._get_running_loop() is None:
            return invoke()
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(invoke).result()
    finally:
        root.handlers[:] = handlers  # the verb's own writes to a stream that is closed now
        root.setLevel(level)


def succeed(*words: object) -> str:
    """What a verb prints that must work."""
    result = run(*words)
    assert (0, None) == (result.exit_code, result.exception), result.output
    return result.stdout


def write_lines(path: Path, events: Iterable[dict[str, Any]]) -> Path:
    """A file of JSON Lines."""
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


class Answer(NamedTuple):
    """What an HTTP request came to."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.text)


def get(service: ServiceProcess, path: str) -> Answer:
    """GET from a service that was started with `--http 127.0.0.1:0` and has said `started`."""
    port = next(line["port"] for line in service.seen if line["event"] == "http")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return Answer(response.status, response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())


def metric(service: ServiceProcess, name: str) -> dict[str, float]:
    """The samples of one metric: what stands in braces -> value."""
    samples = {}
    for line in get(service, "/metrics").text.splitlines():
        head, _, value = line.rpartition(" ")
        if head.partition("{")[0] == name:
            samples[head.partition("{")[2].rstrip("}")] = float(value)
    return samples


def wait_until(condition: Callable[[], bool], what: str, shown: Callable[[], object] = lambda: "") -> None:
    """Ask again until `condition` holds; what is not there in the end is said, with what `shown` gives then.

    The longer it takes, the less often: many a condition takes the asked one as long as what it is about.
    """
    began = monotonic()
    while not condition():
        waited = monotonic() - began
        assert waited < _PATIENCE_SECONDS, f"waited for {what}: {shown()}"
        sleep(min(0.05 + waited / 20, 0.5))


async def until(condition: Callable[[], bool]) -> None:
    """As `wait_until`, for what belongs to this loop: in a thread it would be seen in the midst of a change."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for is told to nobody
            await asyncio.sleep(0.05)


def wait_for_offset(service: ServiceProcess, next_offset: int, partition: int = 0) -> None:
    """Until a partition has applied everything before `next_offset`."""
    label = f'partition="{partition}"'
    wait_until(
        lambda: metric(service, "slotlog_next_offset").get(label) == next_offset,
        f"partition {partition} to reach {next_offset}",
    )
