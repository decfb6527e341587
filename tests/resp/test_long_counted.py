"""The time of a suspended command is its own, without that of others."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pytest

from ingest.applying.slicing.slices import Slices
from tests.resp.clients.running.test_long_commands import Steps
from tests.resp.harness import serving, until
from tests.resp.pausing import PausingStore
from tests.wire.client import Client

_PINGS: Final = 1500
"""So many that a machine which does much else takes longer for them than for the command, were it held up once."""

READS: Final = [["SMEMBERS", "a"]]
WRITES: Final = [["SUNIONSTORE", "d", "a"]]
READING_TRANSACTION: Final = [["MULTI"], ["SMEMBERS", "a"], ["EXEC"]]
WRITING_TRANSACTION: Final = [["MULTI"], ["SUNIONSTORE", "d", "a"], ["KEYS", "*"], ["EXEC"]]


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("smembers", READS),
        ("smembers", [["CLIENT", "REPLY", "ON"], *READS]),
        ("sunionstore", WRITES),
        ("smembers", READING_TRANSACTION),
        ("exec", READING_TRANSACTION),
        ("sunionstore", WRITING_TRANSACTION),
        ("exec", WRITING_TRANSACTION),
        ("sort", [["SORT", "a"]]),
    ],
)
async def test_the_time_of_others_is_not_counted(tmp_path: Path, name: str, commands: list[list[str]]) -> None:
    """SLOWLOG and commandstats say less of a command than the time for which it was certainly suspended."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        client, other = await live.client(), await live.client()
        await client.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
        await client.call("SADD", "a", *range(10))
        await client.call("CONFIG", "RESETSTAT")
        steps.on = True
        client.send(*commands)
        away_us = await suspended_us(live, other)
        steps.on = False
        for _ in commands:
            await client.reply()
        logged = [each[2] for each in await other.call("SLOWLOG", "GET", "50") if each[3][0].lower() == name.encode()]
        counted = re.search(rf"cmdstat_{name}:calls=1,usec=(\d+)", (await other.call("INFO", "commandstats")).decode())
        assert counted is not None
        assert len(logged) == (name != "exec")  # as in Redis, whose SLOWLOG has the commands in it
        assert all(0 < microseconds < away_us for microseconds in logged)
        assert 0 < int(counted[1]) < away_us


async def suspended_us(live: Any, other: Client) -> int:
    """How long a command was certainly suspended: as long as another client sends PINGs."""
    await until(lambda: live.server.pipelines[0].is_held)
    began = perf_counter()
    for _ in range(_PINGS):
        await other.call("PING")
    return int((perf_counter() - began) * 1e6)
