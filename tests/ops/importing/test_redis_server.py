"""Questions of an import to a server, and how their answers are read."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from redis.exceptions import BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError

from ops.importing.redis.server import Server, WrongTypeError
from ops.importing.redis.source import open_source
from ops.importing.source import DELETED, ImportKey, Options, SourceError
from tests.ops.importing.contents import server
from tests.ops.verbs import run
from tests.real.oracle import Connection, Oracle


def test_answer_behind_an_error_is_read(oracle: Connection, oracle_server: Oracle) -> None:
    """An error in the middle of several answers is raised, and the next question gets its own answer."""
    oracle.call("RPUSH", "list", "a")
    with closing(Server(f"unix://{oracle_server.path}")) as source:
        with pytest.raises(WrongTypeError, match="WRONGTYPE"):
            source.ask(0, [("GET", "list"), ("ECHO", "old")])

        assert [b"new"] == source.ask(0, [("ECHO", "new")])


def test_server_that_is_loading_is_waited_for_by_the_user(oracle_server: Oracle) -> None:
    """A server that reads its file after a start is no error of the import: the user is told to wait."""
    with (
        closing(Server(f"unix://{oracle_server.path}")) as source,
        pytest.raises(SourceError, match="is loading its data: wait until redis-cli PING answers PONG"),
        source.errors(),
    ):
        raise BusyLoadingError("Redis is loading the dataset in memory")


@pytest.mark.parametrize("binary", ["", "redis-server"])
def test_replica_without_its_primary_is_refused(binary: str, data: Path) -> None:
    """It may have no key yet, or old ones: the user is told what there is to do, and nothing is made."""
    with server(binary=binary) as source:
        connection = source.connect()
        connection.call("REPLICAOF", "127.0.0.1", 1)
        refused = run("import", f"unix://{source.path}", "--data", data)
        connection.call("REPLICAOF", "NO", "ONE")
        connection.close()
        taken = run("import", f"unix://{source.path}", "--data", data)

    assert (1, 0) == (refused.exit_code, taken.exit_code)
    assert "is a replica without a link to its primary" in refused.stderr


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "it does not speak TLS at this port: write redis://"),
        ("Connection closed by server", "if it speaks TLS at this port, write rediss://"),
        ("Error 111 connecting to 127.0.0.1:1. Connection refused", "is it running, and is this its port?"),
    ],
)
def test_connection_that_fails_comes_with_advice(error: str, advice: str, oracle_server: Oracle) -> None:
    """What redis-py says of a connection is followed by what there is to do."""
    with (
        closing(Server(f"unix://{oracle_server.path}")) as source,
        pytest.raises(SourceError, match=f"does not answer: {re.escape(f'{error}; {advice}')}"),
        source.errors(),
    ):
        raise RedisConnectionError(f"{error}.")


def test_what_nobody_confirmed_is_carried_over_again(oracle: Connection, oracle_server: Oracle, tmp_path: Path) -> None:
    """Also where a key is now what it was before, or gone: a run that ended had other events of it under way."""
    url = f"unix://{oracle_server.path}"
    options = Options(tmp_path / "progress", frozenset(), partitions=1, once=True, layout="")

    def carried(*, confirmed: bool = True) -> list[tuple[bytes, str]]:
        with closing(open_source(url, options)) as source:
            given = [(key.name, key.type, [*key.events]) for key in source.keys(None) if isinstance(key, ImportKey)]
            source.appending()
            if confirmed:
                source.appended(len(given))
        return sorted((name, kind) for name, kind, _ in given)

    oracle.pipeline([("SET", "back", "1"), ("SET", "again", "1")])
    first = carried()
    oracle.pipeline([("SET", "back", "2"), ("SET", "new", "1"), ("DEL", "again")])
    ended = carried(confirmed=False)
    oracle.pipeline([("SET", "back", "1"), ("DEL", "new"), ("SET", "again", "1")])

    assert [(b"again", "string"), (b"back", "string")] == first
    assert [(b"again", DELETED), (b"back", "string"), (b"new", "string")] == ended
    assert [(b"again", "string"), (b"back", "string"), (b"new", DELETED)] == carried()
    assert [] == carried()
