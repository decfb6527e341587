"""INFO's section of clients: who is connected, who waits, and for which keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.oracle import Connection, Oracle
from tests.resp.processes import serving
from tests.resp.reports.test_info import sections
from tests.wire.servers import RespServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("info")) as running:
        yield running


@pytest.fixture
def client(server: RespServer) -> Iterator[Connection]:
    """A connection to it."""
    connection = server.connect()
    yield connection
    connection.close()


def test_clients_are_counted(server: RespServer, client: Connection) -> None:
    """Connected, listening, watching and blocked clients."""
    others = [server.connect() for _ in range(3)]
    others[0].call("SUBSCRIBE", "c")
    others[1].call("WATCH", "a")
    found = sections(client, "clients")["clients"]

    assert ("4", "1", "1", "0") == (
        found["connected_clients"],
        found["pubsub_clients"],
        found["watching_clients"],
        found["blocked_clients"],
    )
    for other in others:
        other.close()


def test_clients_that_wait_for_a_time(server: RespServer, client: Connection) -> None:
    """`clients_in_timeout_table` counts those that wait with a time limit, for elements or for replicas."""
    others = [server.connect() for _ in range(3)]
    for other, command in zip(others, ("BLPOP q 0", "BLPOP q 100", "WAIT 1 100000"), strict=True):
        other._socket.sendall(command.encode() + b"\r\n")
    while "3" != (found := sections(client, "clients")["clients"])["blocked_clients"]:
        pass
    for other in others:
        other.close()

    assert "2" == found["clients_in_timeout_table"]


def test_keys_that_clients_wait_for(server: RespServer, oracle_server: Oracle) -> None:
    """A key counts once for each database; `on_nokey` has those of clients that read in a group, as on the oracle."""
    waits = (
        ["0 BLPOP q q 0", "1 BLPOP q 0", "0 XREAD BLOCK 0 STREAMS st x $ $"],
        ["0 XREADGROUP GROUP g c BLOCK 0 STREAMS st su > >", "0 XREADGROUP GROUP g d BLOCK 0 STREAMS st >"],
        ["1 XREADGROUP GROUP g c BLOCK 0 STREAMS st >"],
    )
    names = "total_blocking_keys", "total_blocking_keys_on_nokey"
    found = []
    for one in (server, oracle_server):
        others, counts = [asking := one.connect()], []
        asking.call("FLUSHALL")
        for place in ("0 st", "0 su", "1 st"):
            db, key = place.split()
            asking.pipeline([["SELECT", db], ["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"]])
        for lines in waits:
            for db, *words in map(str.split, lines):
                others.append(other := one.connect())
                other.call("SELECT", db)
                other.send(*words)
            while str(len(others) - 1) != (shown := sections(asking, "clients")["clients"])["blocked_clients"]:
                pass
            counts.append([shown[name] for name in names])
        for other in others[::-1]:
            other.close()
        found.append(counts)

    assert [["4", "0"], ["5", "2"], ["6", "3"]] == found[0] == found[1]
