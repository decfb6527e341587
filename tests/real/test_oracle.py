"""The oracle server and its raw client."""

from __future__ import annotations

import pytest

from tests.real.oracle import Connection, ErrorReply, MapReply, NullArray, Oracle, SetReply, SimpleString


def test_it_is_the_release_that_we_follow(oracle: Connection) -> None:
    """The oracle is Valkey 9.1; another release has other error texts."""
    lines = oracle.call("INFO", "server").split(b"\r\n")

    assert [b"9.1"] == [
        line.split(b":")[1].rpartition(b".")[0] for line in lines if line.startswith(b"valkey_version:")
    ]


def test_replies_keep_their_kinds(oracle: Connection) -> None:
    """Status, bulk, integer, null, null array, array and error are told apart."""
    oracle.call("RPUSH", "list", "a", b"\x00\r\n")

    replies = oracle.pipeline(
        [
            ("SET", "k", 1.5),
            ("GET", "k"),
            ("STRLEN", "k"),
            ("GET", "none"),
            ("LPOP", "none", 2),
            ("LRANGE", "list", 0, -1),
            ("LPUSH", "k", "x"),
        ]
    )

    wrong_type = ErrorReply(b"WRONGTYPE Operation against a key holding the wrong kind of value")
    assert [SimpleString(b"OK"), b"1.5", 3, None, NullArray(), [b"a", b"\x00\r\n"], wrong_type] == replies


def test_resp3_kinds(oracle: Connection) -> None:
    """After HELLO 3 maps, sets, doubles and null are told apart too."""
    oracle.call("HELLO", 3)
    oracle.pipeline([("HSET", "h", "f", "v"), ("SADD", "s", "m"), ("ZADD", "z", 1.5, "m")])

    replies = oracle.pipeline([("HGETALL", "h"), ("SMEMBERS", "s"), ("ZSCORE", "z", "m"), ("ZRANK", "z", "none")])

    assert [MapReply([(b"f", b"v")]), SetReply([b"m"]), 1.5, None] == replies


@pytest.mark.parametrize("key", ["left", "right"])
def test_each_test_begins_with_an_empty_oracle(oracle: Connection, key: str) -> None:
    """Nothing that another test wrote is there, and connections begin at database 0."""
    size = oracle.call("DBSIZE")
    oracle.call("SET", key, "1")
    oracle.call("SELECT", 1)

    assert size == 0


def test_connections_are_separate(oracle_server: Oracle, oracle: Connection) -> None:
    """A transaction that one connection has begun does not touch another."""
    other = oracle_server.connect()
    oracle.call("MULTI")

    assert [SimpleString(b"QUEUED"), SimpleString(b"OK")] == [oracle.call("SET", "a", 1), other.call("SET", "a", 2)]
    other.close()
