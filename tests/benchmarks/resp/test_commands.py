"""The benchmark over RESP runs, prints its fields, and refuses a run without the asked work."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.resp.commands import COMMANDS, RESP_SMOKE, LoadError, RespResult, Run, fill, measure, run_resp
from benchmarks.resp.reads import READS, filling
from tests.wire.servers import slotlog, valkey


async def test_every_command_runs_beside_both_rivals() -> None:
    """A line for each command and depth, with rates, latencies, CPU time and a ratio to each rival."""
    size = replace(RESP_SMOKE, depths=(1, 16))
    found = [json.loads(result.line()) async for result in run_resp(size, ["embedded"])]

    assert [f"resp_{command}_{depth}_embedded" for command in COMMANDS for depth in (1, 16)] == [
        line["name"] for line in found
    ]
    figures = {"per_second", "p50_ms", "p99_ms", "cpu_us"}
    for line in found:
        assert (
            figures
            | {"name", "requests", "pairs", "load"}
            | {f"{rival}_{field}" for rival in ("always", "everysec") for field in (*figures, "ratio", "p99_ratio")}
            == line.keys()
        )


async def test_it_runs_on_kafka(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with slotlog's log in a broker."""
    monkeypatch.setenv("SLOTLOG_TEST_KAFKA", kafka_bootstrap)
    size = replace(RESP_SMOKE, commands=("set", "get"), depths=(16,))

    assert ["resp_set_16_kafka", "resp_get_16_kafka"] == [result.name async for result in run_resp(size, ["kafka"])]


def test_what_is_read_is_there(tmp_path: Path) -> None:
    """Before reads are measured, every key and field that they may ask for has its value."""
    with slotlog(tmp_path) as server:
        fill(server, 2_500)
        connection = server.connect()
        try:
            assert [2_500, b"VXK", b"VXK"] == [
                connection.call("HLEN", "myhash"),
                connection.call("HGET", "myhash", "element:000000000000"),
                connection.call("GET", "key:000000002499"),
            ]
        finally:
            connection.close()


def test_what_is_read_of_collections_is_there(tmp_path: Path) -> None:
    """Each read of a collection has the reply that its row says: valkey-server's, of as many elements."""
    asked = [tuple(word.replace("__rand_int__", "000000001900") for word in words) for words in READS.values()]
    replies = []
    for server in (slotlog(tmp_path), valkey(tmp_path, durable=False)):
        with server:
            connection = server.connect()
            try:
                for command in filling(2_000):
                    connection.call(*command)
                replies.append([connection.call(*words) for words in asked])
            finally:
                connection.close()

    ours, theirs = ([sorted(reply) if isinstance(reply, list) else reply for reply in each] for each in replies)
    assert theirs == ours
    rank, count, *collections = ours
    assert [1_900, 100, 10, 200, 100, 50] == [rank, count, *map(len, collections)]


def test_a_server_that_refuses_is_no_fast_server(tmp_path: Path) -> None:
    """The canary: a run whose commands fail is an error, and no rate."""
    with valkey(tmp_path, durable=False) as server:
        connection = server.connect()
        try:
            connection.call("SET", "myhash", "no hash")
        finally:
            connection.close()
        with pytest.raises(LoadError, match="WRONGTYPE"):
            measure(server, "hset", 16, 400, 1_000)


def test_ratios_are_those_of_pairs() -> None:
    """A ratio is the median over the pairs of ours by theirs, not the ratio of the medians."""
    ours = [Run(100.0, 1.0, 2.0, 10.0), Run(300.0, 2.0, 6.0, 20.0), Run(200.0, 3.0, 4.0, 30.0)]
    theirs = [Run(200.0, 1.0, 1.0, 1.0), Run(300.0, 1.0, 1.0, 2.0), Run(1000.0, 1.0, 2.0, 3.0)]

    assert {
        "name": "resp_set_16_embedded",
        "per_second": 200,
        "p50_ms": 2.0,
        "p99_ms": 4.0,
        "cpu_us": 20.0,
        "always_ratio": 0.5,
        "always_p99_ratio": 2.0,
        "always_per_second": 300,
        "always_p50_ms": 1.0,
        "always_p99_ms": 1.0,
        "always_cpu_us": 2.0,
        "requests": 5,
        "pairs": 3,
        "load": 0.5,
    } == json.loads(RespResult("resp_set_16_embedded", 5, {"slotlog": ours, "always": theirs}, 0.5).line())
