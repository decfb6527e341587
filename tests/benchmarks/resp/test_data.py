"""The benchmark of large values runs, prints what it should, and refuses replies that are not the rival's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.resp.commands import LoadError
from benchmarks.resp.data import Client, Cost, DataResult, run_data
from benchmarks.resp.data_floor import run_floor
from benchmarks.resp.data_works import DATA_SMOKE, Command, drawn, filling, kinds
from tests.real.oracle import request
from tests.wire.servers import valkey

GROWING = [
    f"{kind}_{members}"
    for kind in ("zrank", "zrange", "zcount", "zlimit", "zadd", "zpopmin", "hget", "hset")
    for members in DATA_SMOKE.members
]
LARGE_REPLIES = ["hgetall_500", "lrange_500", "sinter_500"]
WHOLE = ["copy_500", "sunionstore_500", "sort_500", "pfcount_500", "bitop_500"]
ONE_AT_A_TIME = [*LARGE_REPLIES, *WHOLE]
ROWS = [*GROWING, *LARGE_REPLIES, "setbit_65536", *WHOLE]


async def test_every_row_runs_beside_the_rival() -> None:
    """A line for each command, size and depth with both sides' times and their ratio, and growth by size."""
    found = {line["name"]: line async for line in lines(["embedded"])}

    depths = {row: (1,) if row in ONE_AT_A_TIME else (1, 16) for row in ROWS}
    assert {f"data_{row}_{depth}_embedded" for row in ROWS for depth in depths[row]} == found.keys()
    common = {"name", "us", "cpu_us", "valkey_us", "valkey_cpu_us", "ratio", "cpu_ratio", "commands", "pairs", "load"}
    for name, line in found.items():
        is_growing = "_".join(name.split("_")[1:3]) in GROWING
        growth = {"growth", "cpu_growth", "valkey_growth", "valkey_cpu_growth"} if is_growing else set()
        assert common | growth == line.keys()
    smallest = [line for name, line in found.items() if f"_{DATA_SMOKE.members[0]}_" in name]
    assert [(1.0, 1.0)] * 16 == [(line["growth"], line["valkey_growth"]) for line in smallest]


async def test_the_engine_has_figures_of_its_own() -> None:
    """The same rows without a socket: no rival, and the growth of what has several sizes."""
    found = [line async for line in lines(["engine"])]

    assert [f"data_{row}_engine" for row in ROWS] == [line["name"] for line in found]
    assert [row in GROWING for row in ROWS] == ["growth" in line for line in found]


async def test_some_rows_run_alone() -> None:
    """Those whose kind contains one of the words, and no others."""
    found = [line["name"] async for line in lines(["engine"], "rank,setb")]

    assert ["data_zrank_100_engine", "data_zrank_1000_engine", "data_setbit_65536_engine"] == found


async def test_rows_have_a_floor() -> None:
    """What RocksDB takes for the same: with its growth, and how much is read and written by a command."""
    found = [json.loads(result.line()) async for result in run_floor(DATA_SMOKE, ["engine"], "zr,zadd,hgetall")]

    names = [f"data_{kind}_{members}_floor" for kind in ("zrank", "zrange", "zadd") for members in DATA_SMOKE.members]
    assert names == [line["name"] for line in found]
    assert all(line["us"] > 0 and line["growth"] > 0 for line in found)
    *reading, small, large = (line["writes"] for line in found)
    assert [0] * 4 == reading
    assert 2 < small < large < 7  # a member, its place, the place before; and the counts of a large set
    assert found[3]["reads"] >= 10  # the ten members
    assert [] == [result async for result in run_floor(DATA_SMOKE, ["engine"], "zpopmin")]


async def lines(sources: list[str], rows: str = "") -> AsyncIterator[dict[str, Any]]:
    """The lines of a run at the smallest size."""
    async for result in run_data(DATA_SMOKE, sources, rows):
        yield json.loads(result.line())


def test_figures_are_medians() -> None:
    """The median time of each side, of the ratios, and of the times by those of the same round's smallest size."""
    ours = [Cost(4.0, 2.0), Cost(10.0, 3.0), Cost(6.0, 4.0)]
    theirs = [Cost(2.0, 1.0), Cost(1.0, 1.5), Cost(1.0, 1.5)]
    smallest = {"slotlog": [Cost(2.0, 1.0)] * 3, "valkey": [Cost(2.0, 1.0), Cost(4.0, 1.0), Cost(1.0, 1.0)]}
    result = DataResult("data_x_1_embedded", 7, {"slotlog": ours, "valkey": theirs}, smallest, load=0.5)

    assert {
        "name": "data_x_1_embedded",
        "us": 6.0,
        "cpu_us": 3.0,
        "growth": 3.0,
        "cpu_growth": 3.0,
        "valkey_us": 1.0,
        "valkey_cpu_us": 1.5,
        "valkey_growth": 1.0,
        "valkey_cpu_growth": 1.5,
        "ratio": 0.1667,
        "cpu_ratio": 0.5,
        "commands": 7,
        "pairs": 3,
        "load": 0.5,
    } == json.loads(result.line())


def test_every_round_has_commands_of_its_own() -> None:
    """The same commands for everybody in a round, others in the next one."""
    work = kinds(DATA_SMOKE)[0][0]

    assert drawn(work, 0) == drawn(work, 0)
    assert drawn(work, 0) != drawn(work, 1)


def test_an_error_is_no_reply(tmp_path: Path) -> None:
    """The canary: a server that refuses a command is an error, and no fast server."""
    with valkey(tmp_path, durable=False) as server, closing(Client(server.address)) as client:
        assert b":3\r\n" == client.ask(request(["RPUSH", "l", "a", "b", "c"]), 1)
        with pytest.raises(LoadError, match="WRONGTYPE"):
            client.ask(request(["HGETALL", "l"]), 100)


async def test_other_replies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a server that holds something else than its rival is found, however fast it was."""
    size = replace(DATA_SMOKE, members=(100,))
    monkeypatch.setattr("benchmarks.resp.data.slotlog", valkey)
    works = kinds(size)
    fillings = iter([list(filling(size, works)), [_mirrored(command) for command in filling(size, works)]])
    monkeypatch.setattr("benchmarks.resp.data.filling", lambda *_: iter(next(fillings)))

    with pytest.raises(LoadError, match="other replies"):
        [result async for result in run_data(size, ["embedded"])]


def _mirrored(command: Command) -> Command:
    """The same, but ZADD with the members in the opposite order."""
    name, key, *words = command
    if name != b"ZADD":
        return command
    return [name, key, *(word for pair in zip(words[::2], words[:0:-2], strict=True) for word in pair)]
