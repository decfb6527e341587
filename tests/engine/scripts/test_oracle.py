"""Scripts reply what a real server replies: values, error texts, lines and SHA included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.oracle_host import OracleHost, ours
from tests.real.oracle import Connection, Oracle

PROGRAMS = re.split(r"\n---\n", (Path(__file__).parent / "programs.txt").read_text().removesuffix("\n"))
"""By hand: conversions, errors and their lines, globals, every function of the sandbox with good and bad arguments."""

NUMBERS = [
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', -0.0)",
    "return redis.call('echo', 0/0)",
    "return redis.call('echo', -1e17)",
    "return redis.call('echo', 1e21)",
    "return redis.call('echo', 1.5e-7)",
    "return redis.call('echo', 2^53 + 2)",
    "return redis.call('echo', 2^63)",
    "return redis.call('echo', -2^63)",
    "return {double = 1e300}",
    "return {double = 0.1}",
    "return {double = 1e17}",
    "return {double = 123456789.123456789}",
    "return os.clock() >= 0",
]
"""What Redis prints in another way since 7.2."""

RESP3 = [
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('smembers', 's')",
    "redis.setresp(3) return redis.call('zscore', 'z', 'm')",
    "redis.setresp(3) return redis.call('get', 'none')",
    "redis.setresp(3) return redis.call('hgetall', 'h').map.f",
    "redis.setresp(3) return redis.call('smembers', 's').set.m",
    "redis.setresp(3) return tostring(redis.call('zscore', 'z', 'm').double)",
    "redis.setresp(3) return type(redis.call('get', 'none'))",
    "return redis.call('hgetall', 'h')",
    "return {double = 3.5}",
    "return {map = {a = 1}}",
    "return {set = {a = true}}",
    "return false",
    "return {true, false, 1}",
]
"""Asked on a connection of RESP3."""


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Debian's redis-server."""
    with Oracle(tmp_path_factory.mktemp("redis"), binary="redis-server") as oracle:
        yield oracle


def differences(programs: list[str], server: Oracle, protocol: int = 2) -> list[object]:
    """The programs that reply otherwise than on the server, with both replies."""
    runtime = ScriptRuntime()
    found: list[object] = []
    with closing(server.connect()) as there, closing(server.connect()) as here:
        if protocol == 3:
            there.call("HELLO", "3")
            here.call("HELLO", "3")
        for program in programs:
            fill(there)
            expected = there.call("EVAL", program, 0)
            fill(there)
            actual = ours(program, OracleHost(here), runtime, protocol)
            if expected != actual:
                found.append((program, expected, actual))
    return found


def fill(there: Connection) -> None:
    """A few keys."""
    there.pipeline(
        [
            ["SELECT", "0"],
            ["FLUSHALL"],
            ["RPUSH", "l", "a"],
            ["HSET", "h", "f", "v"],
            ["SADD", "s", "m"],
            ["ZADD", "z", "1.5", "m"],
        ]
    )


def test_programs_reply_as_on_redis(redis: Oracle) -> None:
    """Each of some hundred programs replies byte for byte what redis-server 7.0 replies."""
    assert 400 < len(PROGRAMS)
    assert [] == differences(PROGRAMS, redis)


def test_numbers_are_printed_as_by_newer_servers(oracle_server: Oracle) -> None:
    """Numbers that become words, and doubles, have the digits of valkey-server 9 and Redis from 7.2 on."""
    assert [] == differences(NUMBERS, oracle_server)


def test_replies_of_resp3(oracle_server: Oracle) -> None:
    """On a connection of RESP3 maps, sets, doubles, booleans and nulls are what valkey-server 9 sends."""
    assert [] == differences(RESP3, oracle_server, 3)
