"""Data that waits for and from a client is counted and limited as in Redis and on the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.real.oracle import Connection, Oracle
from tests.real.process import ServerError

LIMITS = ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")
QUERY_LIMIT = ("client-query-buffer-limit", "1gb")


@pytest.fixture(params=["slotlog", "oracle"])
def address(
    request: pytest.FixtureRequest, slotlog_address: tuple[str, int], oracle_server: Oracle
) -> Iterator[str | tuple[str, int]]:
    """Each server, as it was afterwards."""
    where = slotlog_address if request.param == "slotlog" else oracle_server.path
    with closing(Connection(where)) as client:
        client.call("FLUSHALL")
        client.call("CONFIG", "RESETSTAT")
        yield where
        client.call("CONFIG", "SET", *LIMITS, *QUERY_LIMIT)


def stats(client: Connection) -> dict[str, int]:
    """How many clients were cut off at a limit."""
    lines = client.call("INFO", "stats").decode().split("\r\n")
    pairs = [line.split(":") for line in lines if "_limit_disconnections" in line]
    return {name.split("_")[1]: int(count) for name, count in pairs}


def is_cut_off(address: Any, *commands: tuple[str | bytes, ...]) -> bool:
    """Whether a client that sends these gets nothing but the end of its connection."""
    with closing(Connection(address)) as client:
        try:
            client.pipeline(commands)
        except (ServerError, ConnectionError):
            return True
        return False


def test_a_reply_beyond_the_limit_is_not_sent(address: Any) -> None:
    """Not a byte of it; what fits, with 16 KiB that count for nothing, is; each client that is cut off counts."""
    with closing(Connection(address)) as client:
        client.call("SET", "small", b"x" * 10_000)
        client.call("RPUSH", "large", *[b"x" * 1000] * 200)
        client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0")

        assert not is_cut_off(address, ("GET", "small"))
        assert is_cut_off(address, ("LRANGE", "large", "0", "-1"))
        assert is_cut_off(address, *[("GET", "small")] * 15)
        assert {"output": 2, "query": 0} == stats(client)


def test_a_transaction_runs_whose_replies_are_too_much(address: Any) -> None:
    """Its client is cut off, but all of it has happened."""
    with closing(Connection(address)) as client:
        client.call("RPUSH", "large", *[b"x" * 1000] * 200)
        client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0")

        assert is_cut_off(
            address, ("MULTI",), ("SET", "a", "1"), ("LRANGE", "large", "0", "-1"), ("SET", "b", "2"), ("EXEC",)
        )
        assert [b"1", b"2"] == client.call("MGET", "a", "b")


def test_a_command_beyond_the_limit_is_not_run(address: Any) -> None:
    """A value of the limit's size is too much with its line end; a little less is fine; and it counts."""
    with closing(Connection(address)) as client:
        client.call("CONFIG", "SET", "client-query-buffer-limit", 1024 * 1024)

        assert is_cut_off(address, ("SET", "k", b"x" * 1024 * 1024))
        assert not is_cut_off(address, ("SET", "k", b"x" * 1_000_000))
        assert {"output": 0, "query": 1} == stats(client)


def test_what_is_queued_counts_as_a_query(address: Any) -> None:
    """Commands of an open MULTI are not run yet: together they may have as much as one."""
    with closing(Connection(address)) as client:
        client.call("CONFIG", "SET", "client-query-buffer-limit", 1024 * 1024)
        queued = [("SET", "k", b"x" * 300_000)] * 4

        assert not is_cut_off(address, *queued)
        assert is_cut_off(address, ("MULTI",), *queued, ("PING",), ("EXEC",))


def test_paused_and_waiting_clients_are_blocked(address: Any) -> None:
    """`blocked_clients` counts who waits for an element and whose write waits for the end of CLIENT PAUSE."""
    with (
        closing(Connection(address)) as client,
        closing(Connection(address)) as one,
        closing(Connection(address)) as two,
    ):
        client.call("CLIENT", "PAUSE", 60_000, "WRITE")
        one.send("SET", "k", "v")
        two.send("GET", "k")
        two.reply()
        while b"blocked_clients:1\r\n" not in client.call("INFO", "clients"):
            pass
        flags = [line.split(b" flags=")[1][:1] for line in client.call("CLIENT", "LIST").splitlines()]
        client.call("CLIENT", "UNPAUSE")
        one.reply()

        assert 1 == flags.count(b"b")
        assert b"blocked_clients:0\r\n" in client.call("INFO", "clients")


def test_the_line_of_a_client_counts_its_query(slotlog_address: tuple[str, int]) -> None:
    """`qbuf` has the bytes of the command at hand, as in Redis; `tot-mem` has what the client itself takes, too."""
    with closing(Connection(slotlog_address)) as client:
        line = client.call("CLIENT", "INFO").decode()
    fields = dict(field.split("=", maxsplit=1) for field in line.split())

    assert ("26", "0") == (fields["qbuf"], fields["omem"])
    assert int(fields["tot-mem"]) > 1000
