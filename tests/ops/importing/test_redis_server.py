"""Questions of an import to a server, and how their answers are read."""

from __future__ import annotations

from contextlib import closing

import pytest

from ops.importing.redis.server import Server, WrongTypeError
from tests.real.oracle import Connection, Oracle


def test_answer_behind_an_error_is_read(oracle: Connection, oracle_server: Oracle) -> None:
    """An error in the middle of several answers is raised, and the next question gets its own answer."""
    oracle.call("RPUSH", "list", "a")
    with closing(Server(f"unix://{oracle_server.path}")) as source:
        with pytest.raises(WrongTypeError, match="WRONGTYPE"):
            source.ask(0, [("GET", "list"), ("ECHO", "old")])

        assert [b"new"] == source.ask(0, [("ECHO", "new")])
