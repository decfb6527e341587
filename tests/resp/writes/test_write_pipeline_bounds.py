"""A partition's pipeline bounds the waiting writes and the size of one append."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from slotlog.log import Entry, RecordPosition
from tests.resp.harness import PlayedLog, pipeline, replies, serving, until

MIB: Final = 1 << 20


@pytest.mark.parametrize(
    ("events", "size", "crowded"),
    [(50_000, 0, False), (50_001, 0, True), (1, 64 * MIB, False), (1, 64 * MIB + 1, True)],
)
async def test_how_much_may_wait(tmp_path: Path, events: int, size: int, crowded: bool) -> None:
    """50,000 writes, or 64 MiB of them: with more, clients are held."""
    async with serving(tmp_path) as live:
        write_pipeline = live.server.pipelines[0]
        write_pipeline.answers.pending_events, write_pipeline.answers.pending_bytes = events, size

        assert crowded == write_pipeline.answers.crowded
        write_pipeline.answers.pending_events = write_pipeline.answers.pending_bytes = 0


def appended(log: PlayedLog) -> list[int]:
    """How many records each append from now on has."""
    sizes: list[int] = []
    append = log.append

    async def counted(entries: Sequence[Entry]) -> list[RecordPosition]:
        sizes.append(len(entries))
        return await append(entries)

    log.append = counted  # type: ignore[method-assign]
    return sizes


@pytest.mark.parametrize(
    ("value_bytes", "writes", "sizes"), [(1, 2001, [1, 1000, 1000, 1]), (MIB, 9, [1, 4, 4, 1]), (3 * MIB, 4, [1, 2, 2])]
)
async def test_how_much_goes_in_one_append(tmp_path: Path, value_bytes: int, writes: int, sizes: list[int]) -> None:
    """1,000 writes at most, and no more once they have 4 MiB together."""
    async with serving(tmp_path) as live:
        live.log.at_once = False
        got = appended(live.log)
        client, first = await live.client(), await live.client()
        live.log.start_gate.clear()
        first.send(["SET", "first", "1"])
        await until(lambda: bool(got))
        command: list[str | bytes] = ["SET", "k", b"x" * value_bytes]
        client.send(*[command] * writes)
        await until(lambda: live.server.pipelines[0].answers.pending_events == writes + 1)
        live.log.start_gate.set()
        await replies(first, 1)
        await replies(client, writes)

        assert sizes == got
        assert [1] == await pipeline(client, "EXISTS k")
