"""redis-cli and redis-benchmark, as Debian ships them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import redis

from tests.clients.programs import ProgramError, run
from tests.clients.scenario import Pusher

BENCHMARKS = ("set", "get", "incr", "lpush", "hset", "zadd")
REQUESTS = 1600
BLOCKED = """
RPUSH cli:tasks first
BLPOP cli:tasks 20
BLPOP cli:queue 20
BLPOP cli:empty 0.1
"""
TRANSACTION = """
WATCH cli:number
MULTI
INCRBY cli:number 40
GET cli:number
EXEC
MULTI
NO SUCH
EXEC
"""


@pytest.fixture
def client(port: int) -> Iterator[redis.Redis]:
    """A client for what the tools left behind, with an empty database 0."""
    with redis.Redis(port=port, decode_responses=True) as client:
        client.flushdb()
        yield client


def cli(port: int, *args: str, text: str = "") -> str:
    """What redis-cli prints; commands come from its arguments or from `text`."""
    return run(["redis-cli", "-p", str(port), *args], text.encode())


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_replies(client: redis.Redis, port: int, protocol: str) -> None:
    """redis-cli writes and reads on either protocol; errors are shown as Redis words them."""
    commands = "SET cli:text 'Grüße, Ada'\nGET cli:text\nGET cli:missing\nLPUSH cli:text x\nDBSIZE\nNOSUCH x\n"

    assert (
        [
            "OK",
            "Grüße, Ada",
            "",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "",  # redis-cli puts an empty line after an error
            "1",
            "ERR unknown command 'NOSUCH', with args beginning with: 'x' ",
        ]
        == cli(port, protocol, text=commands).splitlines()[:7]
    )


def test_resp3_types(client: redis.Redis, port: int) -> None:
    """With -3, hashes are maps, sets are sets and scores are doubles, which redis-cli shows each in its own way."""
    client.hset("cli:hash", mapping={"name": "Ada"})
    client.sadd("cli:set", "x")
    client.zadd("cli:zset", {"first": 1.5})
    commands = "HGETALL cli:hash\nSMEMBERS cli:set\nZSCORE cli:zset first\nGET cli:missing\n"

    assert ['1# "name" => "Ada"', '1~ "x"', "(double) 1.5", "(nil)"] == cli(
        port, "-3", "--no-raw", text=commands
    ).splitlines()


def test_mass_insertion(client: redis.Redis, port: int) -> None:
    """`redis-cli --pipe` writes thousands of commands in one go, and counts their replies and errors."""
    commands = "".join(f"SET cli:{number} {number}\r\n" for number in range(5000)) + "LPUSH cli:0 x\r\n"

    with pytest.raises(ProgramError, match=r"errors: 1, replies: 5001"):  # it ends with 1 if there was an error
        cli(port, "--pipe", text=commands)
    assert 5000 == client.dbsize()


def test_transaction(client: redis.Redis, port: int) -> None:
    """redis-cli queues a transaction; a wrong command in it discards it."""
    assert ["OK", "OK", "QUEUED", "QUEUED", "40", "40", "OK"] == cli(port, text=TRANSACTION).splitlines()[:7]
    assert "EXECABORT Transaction discarded because of previous errors." in cli(port, text=TRANSACTION)


def test_blocking_pop(client: redis.Redis, port: int) -> None:
    """redis-cli gets what is there at once, what is pushed while it waits, and nothing after the timeout."""
    with Pusher([port], "cli:queue"):
        printed = cli(port, text=BLOCKED)

    assert ["1", "cli:tasks", "first", "cli:queue", "job", ""] == printed.splitlines()


def test_options(client: redis.Redis, port: int) -> None:
    """Other options of redis-cli do what they say: -n, -r, -x, --csv, --scan, --bigkeys."""
    client.rpush("cli:list", "a", "b")

    assert "OK\n" == cli(port, "-n", "3", "SET", "cli:elsewhere", "1")
    assert ["1", "2", "3"] == cli(port, "-r", "3", "INCR", "cli:count").split()
    assert "OK\n" == cli(port, "-x", "SET", "cli:input", text="one\ntwo\n")
    assert "one\ntwo\n" == client.get("cli:input")
    assert '"a","b"\n' == cli(port, "--csv", "LRANGE", "cli:list", "0", "-1")
    assert {"cli:list", "cli:count", "cli:input"} == set(cli(port, "--scan", "--pattern", "cli:*").split())
    assert "Biggest   list found '\"cli:list\"' has 2 items" in cli(port, "--bigkeys")
    assert "1\n" == cli(port, "-n", "3", "DEL", "cli:elsewhere")


def test_cluster(cluster_ports: list[int]) -> None:
    """`redis-cli -c` follows MOVED, without -c it shows it; --cluster check finds both nodes and all slots."""
    first, second = cluster_ports

    assert "OK\n" == cli(first, "-c", "SET", "cli:b", "1")  # slot 686: the first half
    assert f"MOVED 686 127.0.0.1:{first}\n" in cli(second, "SET", "cli:b", "1")
    assert "1\n" == cli(second, "-c", "GET", "cli:b")
    assert "CROSSSLOT Keys in request don't hash to the same slot\n" in cli(first, "MSET", "cli:b", "1", "cli:a", "2")
    assert "[OK] All 16384 slots covered." in cli(first, "--cluster", "check", f"127.0.0.1:{first}")


def test_benchmark(client: redis.Redis, port: int) -> None:
    """redis-benchmark gets through its tests, pipelined by 16, without an error, and what it wrote is there."""
    tests = ["-t", ",".join(BENCHMARKS), "-P", "16", "-n", str(REQUESTS)]
    printed = run(["redis-benchmark", "-p", str(port), *tests, "-q"])

    assert [name.upper() for name in BENCHMARKS] == re.findall(r"(\w+): [\d.]+ requests per second", printed)
    assert [str(REQUESTS), REQUESTS] == [client.get("counter:__rand_int__"), client.llen("mylist")]


def test_cluster_benchmark(cluster_ports: list[int]) -> None:
    """redis-benchmark --cluster spreads its load over both nodes without an error."""
    tests = ["-t", "set,get", "-P", "16", "-n", str(REQUESTS), "-r", "1000"]
    printed = run(["redis-benchmark", "-p", str(cluster_ports[0]), "--cluster", *tests, "-q"])

    assert ["SET", "GET"] == re.findall(r"(\w+): [\d.]+ requests per second", printed)
