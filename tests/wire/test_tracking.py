"""Client-side caching over sockets: replies and invalidations are those of valkey-server, in its order."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from tests.real.oracle import Connection, Oracle
from tests.resp.scripts import OracleClients, Step, play, replay
from tests.resp.tracking_plays import PLAYS


@pytest.mark.parametrize("resp3", [False, True])
@pytest.mark.parametrize("name", PLAYS)
def test_same_as_the_oracle(name: str, resp3: bool, slotlog_address: tuple[str, int], oracle_server: Oracle) -> None:
    """Every client gets the oracle's replies and invalidations, a write's own behind its reply."""
    with closing(oracle_server.connect()) as oracle, closing(Connection(slotlog_address)) as ours:
        oracle.call("FLUSHALL")
        ours.call("FLUSHALL")
        with closing(OracleClients(oracle_server)) as clients:
            expected = play(clients, PLAYS[name], resp3=resp3)

        assert _without_ids(expected) == _without_ids(replay(slotlog_address, expected, resp3=resp3, control=ours))


def _without_ids(steps: list[Step]) -> list[Step]:
    """Numbers of clients are others on each server, and what HELLO says of it."""
    return [
        (line, {name: _without_id(data) for name, data in got.items()}) if "HELLO" not in line else (line, {})
        for line, got in steps
    ]


def _without_id(data: bytes) -> bytes:
    return re.sub(rb"(redirect|broken)\r\n:\d+", rb"\1\r\n:ID", data)


@pytest.mark.parametrize("lapse", ["SET e 1 PX 200", "HSETEX e PX 200 FIELDS 1 f 1"])
def test_what_expires_is_told(lapse: str, slotlog_address: tuple[str, int], oracle_server: Oracle) -> None:
    """A key that goes by itself, and a hash that loses a field, are told without anybody's command."""
    told = []
    for address in (oracle_server.path, slotlog_address):
        with closing(Connection(address)) as client, closing(Connection(address)) as other:
            other.call("FLUSHALL")
            other.call(*lapse.split())
            client.call("HELLO", 3)
            client.call("CLIENT", "TRACKING", "ON")
            client.call("EXISTS", "e")
            told.append(client.reply())

    assert [[b"invalidate", [b"e"]]] * 2 == told


def test_a_read_that_waited_is_told_behind_its_reply(slotlog_address: tuple[str, int]) -> None:
    """XREAD with BLOCK: what it was woken by is told as a change, as its client may keep the reply for the answer."""
    with closing(Connection(slotlog_address)) as client, closing(Connection(slotlog_address)) as other:
        other.call("FLUSHALL")
        client.call("HELLO", 3)
        client.call("CLIENT", "TRACKING", "ON")
        client.send("XREAD", "BLOCK", "0", "STREAMS", "waited", "$")
        while b"blocked_clients:1" not in other.call("INFO", "clients"):
            pass
        other.call("XADD", "waited", "1-1", "f", "v")

        assert [(b"waited", [[b"1-1", [b"f", b"v"]]])] == client.reply().pairs
        assert [b"invalidate", [b"waited"]] == client.reply()
