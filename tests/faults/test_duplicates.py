"""Producers that crash, or stand still, while others send the same events with the same ids: each is applied once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgpack
import pytest

from ops.config import load_settings
from ops.state.opening.directories import digest_partition
from slotlog.log import Log
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.faults.test_kill import Model
from tests.faults.workers import new_topic
from tests.ops.verbs import metric, succeed, wait_until
from tests.real import forks

_CRASHES: Final = int(os.environ.get("PRODUCER_CRASHES", "3"))
"""The variable asks for more of them for a night."""

_EVENTS: Final = 2000 * _CRASHES


def _written_to(path: Path, model: Model) -> Path:
    """A file of events, each with an id of its own; what they come to is in the model."""
    choose = random.Random(20261128)
    with path.open("wb") as file:
        for number in range(_EVENTS):
            cmd, args = model.event(number, choose)
            file.write(msgpack.packb({"cmd": cmd, "args": args, "id": f"event-{number}"}))
    return path


@contextmanager
def _sending(file: Path, options: list[str]) -> Iterator[forks.Process]:
    """`slotlog produce`: a producer of its own, which Kafka has never seen."""
    process = forks.start([sys.executable, "-m", "ops.cli", "produce", str(file), *options], os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _reached(log: Log, end: int, process: forks.Process) -> bool:
    """Wait until the log has so many records; whether it had before the process ended."""
    while await log.end_offset(0) < end:
        if process.poll() is not None:
            return False
        await asyncio.sleep(0.002)
    return True


@pytest.mark.timeout(1800)
async def test_events_are_sent_again_by_new_producers(log_url: str, tmp_path: Path) -> None:
    """Killed at random, begun anew by another one each time, and once while the one before stands still and goes on."""
    choose, model, topic, data = random.Random(1), Model(), new_topic(), tmp_path / "data"
    file = _written_to(tmp_path / "events", model)
    log_options = ["--data", str(data), "--log", log_url, "--topic", topic]
    async with opened_log(log_url, topic) as log:
        with ServiceProcess([*log_options, "--http", "127.0.0.1:0"]) as service:
            service.wait_for("started")
            for _ in range(_CRASHES):
                with _sending(file, log_options) as process:
                    await _reached(log, await log.end_offset(0) + choose.randrange(1, _EVENTS), process)
            with _sending(file, log_options) as paused:
                assert await _reached(log, await log.end_offset(0) + 1, paused)
                paused.send_signal(signal.SIGSTOP)
                with _sending(file, log_options) as process:
                    assert 0 == await asyncio.to_thread(process.wait, 600)
                paused.send_signal(signal.SIGCONT)
                assert 0 == await asyncio.to_thread(paused.wait, 600)
            end = await log.end_offset(0)
            label = 'partition="0"'
            await asyncio.to_thread(
                wait_until,
                lambda: metric(service, "slotlog_next_offset").get(label) == end,
                "everything to be applied",
            )
            counted = metric(service, "slotlog_events_duplicate_total")[label]
            assert 0 == service.terminate()
    settings = load_settings(data=data, log=log_url, topic=topic)
    digest, position = digest_partition(settings, 0)
    replayed = json.loads(succeed("replay", "--to", tmp_path / "again", *log_options, "--json"))["partitions"][0]

    assert (end, model.digest()) == (position.next_offset, digest)
    assert end - _EVENTS == counted == replayed["not_applied"]["duplicates"]
    assert _EVENTS < counted
