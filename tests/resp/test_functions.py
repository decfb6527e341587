"""Functions from clients: redis-py's methods, transactions, users, several partitions, a restart of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from tests.resp.processes import serving
from tests.resp.test_scripts import connected_to
from tests.wire.servers import RespServer

CODE = """#!lua name=mylib
redis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end,
    flags={'no-writes'}, description='reads'}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("functions")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """One worker with two partitions."""
    with serving(tmp_path_factory.mktemp("functions"), ["--partitions", "2"]) as running:
        yield running


@pytest.fixture
def client(server: RespServer) -> Iterator[Any]:
    """A client of a server that has the library and nothing else."""
    with connected_to(server) as connected:
        connected.flushall()
        connected.function_flush()
        connected.function_load(CODE)
        yield connected


def test_a_library_is_loaded_listed_and_deleted(client: Any) -> None:
    """redis-py's methods for libraries."""
    (listed,) = client.function_list(withcode=True)
    listed = dict(zip(listed[::2], listed[1::2], strict=True))
    assert [b"mylib", b"LUA", CODE.encode()] == [listed[name] for name in (b"library_name", b"engine", b"library_code")]
    assert [b"name", b"get", b"description", b"reads", b"flags", [b"no-writes"]] == listed[b"functions"][0]
    assert b"mylib" == client.function_load(CODE, replace=True)
    with pytest.raises(ResponseError, match="Library 'mylib' already exists"):
        client.function_load(CODE)
    assert client.function_delete("mylib")
    assert [] == client.function_list()


def test_functions_are_called(client: Any) -> None:
    """FCALL writes as one event, and reads without one where it has the flag, as FCALL_RO: ROLE tells the log's end."""
    assert b"OK" == client.fcall("put", 1, "k", "v")
    before = client.role()
    assert [b"v", b"v"] == [client.fcall_ro("get", 1, "k"), client.fcall("get", 1, "k")]
    assert before == client.role()
    with pytest.raises(ResponseError, match="Can not execute a script with write flag"):
        client.fcall_ro("put", 1, "k", "v")


def test_libraries_go_from_one_server_to_another(client: Any) -> None:
    """DUMP and RESTORE by redis-py."""
    payload = client.function_dump()
    client.function_flush()
    assert client.function_restore(payload)
    assert b"OK" == client.fcall("put", 1, "k", "v")


def test_functions_are_counted(client: Any) -> None:
    """INFO and FUNCTION STATS say how many there are, behind what the same pipeline has loaded."""
    memory = client.info("memory")
    assert (1, 2) == (memory["number_of_libraries"], memory["number_of_functions"])
    *_, stats = client.pipeline(transaction=False).function_flush().function_load(CODE).function_stats().execute()
    counts = {b"libraries_count": 1, b"functions_count": 2}
    assert {b"running_script": None, b"engines": {b"LUA": counts}} == stats


def test_calls_stand_in_transactions(client: Any) -> None:
    """An EXEC loads a library and calls it; one that only reads is no event."""
    both = client.pipeline().function_flush().function_load(CODE).fcall("put", 1, "k", "v").fcall_ro("get", 1, "k")
    assert [True, b"mylib", b"OK", b"v"] == both.execute()
    before = client.role()
    assert [b"v"] == client.pipeline().fcall_ro("get", 1, "k").execute()
    assert before == client.role()


def test_a_call_has_the_rights_of_its_user(server: RespServer, client: Any) -> None:
    """The commands of a function are held against them, as events and as reads."""
    client.execute_command("ACL", "SETUSER", "ann", "on", "nopass", "+@all", "-function|flush", "~a*")
    try:
        with connected_to(server, username="ann", password="x") as ann:
            assert b"OK" == ann.fcall("put", 1, "a", "1")
            with pytest.raises(NoPermissionError, match="No permissions to access a key"):
                ann.fcall("put", 1, "b", "1")
            with pytest.raises(NoPermissionError, match=r"no permissions to run the 'function\|flush' command"):
                ann.function_flush()
            body = "return redis.call('DEL', 'b')"
            ann.function_load(f"#!lua name=other\nredis.register_function('b', function() {body} end)")
            with pytest.raises(ResponseError, match="ACL failure in script: No permissions to access a key script: b"):
                ann.fcall("b", 0)
    finally:
        client.execute_command("ACL", "DELUSER", "ann")


def test_functions_in_a_cluster(cluster: RespServer) -> None:
    """FUNCTION LOAD reaches each partition; a call runs where its keys are, and without keys somewhere."""
    with connected_to(cluster) as client:
        client.function_load(CODE)
        assert [b"OK", b"OK"] == [client.fcall("put", 1, key, key) for key in ("a", "b")]
        assert [b"a", b"b"] == [client.fcall_ro("get", 1, key) for key in ("a", "b")]
        assert 1 == len(client.function_list())
        payload = client.function_dump()
        with pytest.raises(ResponseError, match="Keys in request don't hash to the same slot"):
            client.fcall("put", 2, "a", "b", "v")
        client.function_delete("mylib")
        assert [] == client.function_list()
        client.function_restore(payload)
        assert [b"b", b"a"] == [client.fcall_ro("get", 1, key) for key in ("b", "a")]


def test_functions_are_there_after_a_restart(tmp_path: Path) -> None:
    """A server that was killed has its libraries."""
    with serving(tmp_path) as running:
        with connected_to(running) as client:
            client.function_load(CODE)
        running.kill()
        running.start()
        with connected_to(running) as client:
            assert b"OK" == client.fcall("put", 1, "k", "v")
