"""Writes of clients of which one must not be written: those before it are acknowledged, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotlog.shared.errors import InvariantError
from tests.faulty import POISON, REASON, plant_bug
from tests.real.oracle import SimpleString
from tests.resp.harness import pipeline, serving


async def test_a_write_that_must_not_be_written_stops_its_partition(tmp_path: Path) -> None:
    """Of writes in one batch, those before the one to blame get their reply, and it and the rest are in doubt."""
    with pytest.MonkeyPatch.context() as patch:
        async with serving(tmp_path) as live:
            plant_bug(patch)
            client = await live.client()
            got = await pipeline(client, "INCR n", f"SET bad {POISON.decode()}", "INCR n", "PING")

    doubt = f"UNKNOWNOUTCOME the write is in the log and not applied yet: offset 1 (SET) cannot be applied: {REASON}"
    assert [1, SimpleString(b"PONG")] == [got[0], got[3]]
    assert [doubt.encode()] * 2 == [reply.text for reply in got[1:3]]


async def test_nobody_comes_between_writes_that_are_being_applied(tmp_path: Path) -> None:
    """What a fetch gave is not applied in the middle of what this process has appended itself."""
    async with serving(tmp_path) as live:
        write_pipeline = live.server.pipelines[0]
        write_pipeline.local_writes._advancing = True
        with pytest.raises(InvariantError, match="writes of this process are being applied"):
            write_pipeline.local_writes.hold()
        write_pipeline.local_writes._advancing = False
