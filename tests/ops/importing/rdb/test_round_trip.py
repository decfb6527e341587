"""A server's file becomes a state, and the state's file a server's contents: the same by the server's own digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from engine.layouts.layout import Form
from engine.proof.digest import digest
from engine.proof.walk import live_keys
from engine.store.store import Store
from ops.exporting.exporter import NotExported
from ops.exporting.rdb.file import export
from tests.engine.commands.scripting.harness import outcome
from tests.layouts import layout_of
from tests.ops.importing.rdb.files import FAR_MS, NOW_MS, Command, fill, load, saved, state_of
from tests.real.oracle import Connection, Oracle

LOADS: Final = {"valkey": (9, 10, 11, 80), "redis": (9, 10)}
"""The versions that each of them loads. Redis 7.4, which loads 12, is not there."""

READS: Final[list[Command]] = [
    ["ZRANGE", "zset", 0, -1, "WITHSCORES"],
    ["ZRANGE", "large zset", 0, -1, "WITHSCORES"],
    ["SMISMEMBER", "numbers", 1, -2, 3, 4, 100, 20, -30],
    ["SMISMEMBER", "wide numbers", 1, -(2**40), 0],
    ["SMISMEMBER", "many numbers", *range(-30, 90)],
    ["LRANGE", "list", 0, -1],
    ["LRANGE", "long list", 0, -1],
    ["PEXPIRETIME", "dying"],
    ["PEXPIRETIME", "large zset"],
]
"""What a server's digest does not see: orders, on which its searches depend, and moments."""

LIBRARY: Final = "#!lua name=counters\nredis.register_function('f', function() return 1 end)"


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, servers: dict[str, Oracle]) -> tuple[str, Oracle]:
    """One of the servers, and its name."""
    return request.param, servers[request.param]


@pytest.fixture
def connection(server: tuple[str, Oracle]) -> Iterator[Connection]:
    """A connection to it; it holds nothing."""
    connection = server[1].connect()
    connection.call("FLUSHALL")
    yield connection
    connection.call("FUNCTION", "FLUSH")
    connection.close()


def export_of(
    store: Store, to: Path, version: int, libraries: Mapping[bytes, bytes] = MappingProxyType({})
) -> list[NotExported]:
    """Write the state to a file; what it cannot hold."""
    missing: list[NotExported] = []
    export(to, live_keys(store, layout_of(), NOW_MS), libraries, NOW_MS, missing.append, version=version)
    return missing


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])
def test_every_type_comes_and_goes(
    packed: bool, server: tuple[str, Oracle], connection: Connection, tmp_path: Path
) -> None:
    """All types, small and large, packed, compressed and not, with odd names and times; in every version it loads."""
    name, oracle = server
    kinds = ("hash", "set", "zset") if name == "valkey" else ("hash", "zset")
    for kind in kinds:
        connection.call("CONFIG", "SET", f"{kind}-max-listpack-entries", 100_000 if packed else 0)
    connection.call("CONFIG", "SET", "set-max-intset-entries", 100_000 if packed else 0)
    connection.call("CONFIG", "SET", "list-max-listpack-size", -2 if packed else 2)
    connection.call("CONFIG", "SET", "rdbcompression", "yes" if packed else "no")
    fill(connection, many=700)
    expected, replies = connection.call("DEBUG", "DIGEST"), connection.pipeline(READS)
    keys = 0
    for line in connection.call("INFO", "keyspace").decode().split("\r\n")[1:-1]:
        keys += int(line.split("keys=")[1].split(",")[0])

    store, _, brought = state_of(saved(oracle, connection, tmp_path / "theirs.rdb"))

    assert [] == brought.left_out
    assert keys == brought.types.total() == 3 * 29
    for version in LOADS[name]:
        assert [] == export_of(store, tmp_path / "ours.rdb", version)
        load(oracle, connection, tmp_path / "ours.rdb")
        assert expected == connection.call("DEBUG", "DIGEST"), version
        assert replies == connection.pipeline(READS), version


@pytest.mark.parametrize("version", [9, 10, 11, 12, 80])
def test_our_own_files_come_back(version: int, servers: dict[str, Oracle], tmp_path: Path) -> None:
    """What is exported in any version, also one that no server here loads, is imported as the same state."""
    connection = servers["valkey"].connect()
    connection.call("FLUSHALL")
    fill(connection, many=700)
    store, machine, _ = state_of(saved(servers["valkey"], connection, tmp_path / "theirs.rdb"))
    connection.close()
    export_of(store, tmp_path / "ours.rdb", version)

    again, _, _ = state_of(tmp_path / "ours.rdb")

    assert digest(store, layout_of(), machine.clock_ms) == digest(again, layout_of(), machine.clock_ms)


def test_libraries_come_and_go(server: tuple[str, Oracle], connection: Connection, tmp_path: Path) -> None:
    """Functions run here as there, and the file that is exported brings them back; version 9 is told to lack them."""
    name, oracle = server
    other = LIBRARY.replace("counters", "more").replace("'f'", "'g'") + "\n--" + "x" * 500
    for code in (LIBRARY, other):
        connection.call("FUNCTION", "LOAD", code)
    store, machine, brought = state_of(saved(oracle, connection, tmp_path / "theirs.rdb"))

    assert ({"library": 2}, []) == (brought.types, brought.left_out)
    assert [1, 1] == [outcome(machine, "FCALL", function, "0") for function in ("f", "g")]
    for version in (version for version in LOADS[name] if version > 9):
        assert [] == export_of(store, tmp_path / "ours.rdb", version, machine.kept[1].codes)
        connection.call("FUNCTION", "FLUSH")
        load(oracle, connection, tmp_path / "ours.rdb")
        assert [1, 1] == [connection.call("FCALL", function, 0) for function in ("f", "g")]
    assert [(None, b"counters", "functions"), (None, b"more", "functions")] == [
        each[:3] for each in export_of(store, tmp_path / "ours.rdb", 9, machine.kept[1].codes)
    ]


@pytest.mark.form(Form.FIELD_TIMES)
@pytest.mark.parametrize("fields", [3, 24_000])
def test_times_of_fields_come_and_go(fields: int, servers: dict[str, Oracle], tmp_path: Path) -> None:
    """Of a small and a large hash: in version 80 to Valkey, in 12 to ourselves; in 10 they are told to be missing."""
    oracle = servers["valkey"]
    connection = oracle.connect()
    connection.call("FLUSHALL")
    names = [f"field {number} {'x' * 40}" for number in range(fields)]
    connection.call("HSET", "hash", *(word for name in names for word in (name, len(name))))
    connection.call("HPEXPIREAT", "hash", FAR_MS, "FIELDS", fields // 2, *names[: fields // 2])
    connection.call("HPEXPIREAT", "hash", FAR_MS + 7, "FIELDS", 1, names[-1])
    digest_before = connection.call("DEBUG", "DIGEST")
    expected = connection.call("HPEXPIRETIME", "hash", "FIELDS", fields, *names)
    store, machine, _ = state_of(saved(oracle, connection, tmp_path / "theirs.rdb"))

    assert expected == machine.read(b"HPEXPIRETIME", [b"hash", b"FIELDS", b"%d" % fields, *map(str.encode, names)])
    assert [] == export_of(store, tmp_path / "ours.rdb", 80)
    load(oracle, connection, tmp_path / "ours.rdb")
    assert expected == connection.call("HPEXPIRETIME", "hash", "FIELDS", fields, *names)
    assert digest_before == connection.call("DEBUG", "DIGEST")
    assert [] == export_of(store, tmp_path / "ours.rdb", 12)
    again, _, _ = state_of(tmp_path / "ours.rdb")
    assert digest(store, layout_of(), NOW_MS) == digest(again, layout_of(), NOW_MS)
    assert [(0, b"hash", "times of fields")] == [each[:3] for each in export_of(store, tmp_path / "ours.rdb", 10)]
    load(oracle, connection, tmp_path / "ours.rdb")
    assert [-1] * fields == connection.call("HPEXPIRETIME", "hash", "FIELDS", fields, *names)
    assert fields == connection.call("HLEN", "hash")
    connection.close()


STREAM_INFO = [("XINFO", "STREAM", name, "FULL", "COUNT", 0) for name in ("stream", "empty stream", "long")]


def test_streams_come_and_go(server: tuple[str, Oracle], connection: Connection, tmp_path: Path) -> None:
    """With groups, deleted entries, what is pending, and none at all; one is too long for one event."""
    name, oracle = server
    connection.call("SET", "before", "v")
    for number in range(500):
        connection.call("XADD", "stream", f"{number + 1}-0", "field", number, "other", "x" * 50)
    connection.call("XDEL", "stream", "7-0")
    connection.call("XGROUP", "CREATE", "stream", "group", "0")
    connection.call("XGROUP", "CREATE", "stream", "idle group", "$")
    connection.call("XREADGROUP", "GROUP", "group", "reader", "COUNT", 90, "STREAMS", "stream", ">")
    connection.call("XREADGROUP", "GROUP", "group", "other reader", "COUNT", 3, "STREAMS", "stream", ">")
    connection.call("XADD", "empty stream", "1-1", "f", "v")
    connection.call("XTRIM", "empty stream", "MAXLEN", 0)
    connection.pipeline(("XADD", "long", f"{number + 1}-0", "f", str(number) * 100) for number in range(4000))
    connection.call("XDEL", "long", "50-0")
    connection.call("XGROUP", "CREATE", "long", "group", "0")
    connection.call("XREADGROUP", "GROUP", "group", "reader", "COUNT", 40, "STREAMS", "long", ">")
    connection.call("PEXPIREAT", "long", FAR_MS)
    assert b"counters" == connection.call("FUNCTION", "LOAD", LIBRARY)
    connection.call("SET", "behind", "v")
    expected = connection.pipeline(STREAM_INFO)
    store, machine, brought = state_of(saved(oracle, connection, tmp_path / "dump.rdb"))

    assert [] == brought.left_out
    assert {"string": 2, "library": 1, "stream": 3} == brought.types
    assert [b"v", b"v"] == machine.read(b"MGET", [b"before", b"behind"])
    assert FAR_MS == machine.read(b"PEXPIRETIME", [b"long"])
    assert any("written by " + ("Valkey 9" if name == "valkey" else "Redis 7") in note for note in brought.notes)
    assert [] == export_of(store, tmp_path / "ours.rdb", 11 if name == "valkey" else 10)
    load(oracle, connection, tmp_path / "ours.rdb")
    assert [without_times(each) for each in expected] == [
        without_times(each) for each in connection.pipeline(STREAM_INFO)
    ]
    assert expected[:2] == connection.pipeline(STREAM_INFO)[:2]


def without_times(reply: Any) -> Any:
    """A reply about a stream without when its consumers were seen, and how it lies in the memory of the server."""
    if not isinstance(reply, list):
        return reply
    apart = (b"seen-time", b"active-time", b"radix-tree-keys", b"radix-tree-nodes")
    left = [each for each, before in zip(reply, [b"", *reply], strict=False) if before not in apart]
    return [without_times(each) for each in left]


def test_dead_keys_stay_behind(server: tuple[str, Oracle], connection: Connection, tmp_path: Path) -> None:
    """A key whose time has passed since the file was written is not brought, as no server loads it; it is counted."""
    connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    connection.call("SET", "dead", "v", "PX", 1)
    connection.call("RPUSH", "alive", "v")
    connection.call("PEXPIREAT", "alive", FAR_MS)
    while connection.call("PTTL", "dead") > 0:
        pass
    _, machine, brought = state_of(saved(server[1], connection, tmp_path / "dump.rdb"))
    connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    assert {"list": 1} == brought.types
    assert FAR_MS == machine.read(b"PEXPIRETIME", [b"alive"])
