"""Several clients of one server, over sockets: what one of them does, the others see, as they do on valkey-server."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from tests.real.oracle import Connection, Oracle
from tests.resp import plays, plays_of_looks, waiting_plays
from tests.resp.scripts import OracleClient, OracleClients, Step, normal, play, replay

PLAYS = {
    "pubsub": plays.PUBSUB,
    "client": plays.CLIENT,
    "monitor": plays.MONITOR,
    "monitored": plays_of_looks.MONITORED,
    "notifications": plays.NOTIFICATIONS,
    "slowlog": plays_of_looks.SLOWLOG,
    "slow data": plays_of_looks.SLOW_DATA,
    "keys and flags": plays_of_looks.KEYS_AND_FLAGS,
    "latency": plays.LATENCY,
}


@pytest.mark.parametrize("resp3", [False, True])
@pytest.mark.parametrize("name", PLAYS)
def test_same_as_the_oracle(name: str, resp3: bool, slotlog_address: tuple[str, int], oracle_server: Oracle) -> None:
    """Every client gets the oracle's replies and messages, in the oracle's order."""
    expected = on_oracle(oracle_server, name, resp3=resp3)

    assert normal(expected) == normal(replay(slotlog_address, expected, resp3=resp3))


@pytest.mark.parametrize("resp3", [False, True])
@pytest.mark.parametrize("name", waiting_plays.PLAYS)
def test_who_waits_is_served_first(
    name: str, resp3: bool, slotlog_address: tuple[str, int], oracle_server: Oracle
) -> None:
    """Before the pusher's next command, as on the oracle: every client gets what it gets there."""
    with closing(oracle_server.connect()) as oracle, closing(Connection(slotlog_address)) as ours:
        oracle.call("FLUSHALL")
        ours.call("FLUSHALL")
        with closing(OracleClients(oracle_server)) as clients:
            expected = play(clients, waiting_plays.PLAYS[name], resp3=resp3)

        assert expected == replay(slotlog_address, expected, resp3=resp3, control=ours)


def on_oracle(oracle_server: Oracle, name: str, *, resp3: bool) -> list[Step]:
    """What each client gets on the oracle. Of a slow log other clients would be a part."""
    clients = OracleClient(oracle_server) if name.startswith("slow") else OracleClients(oracle_server)
    clients.say("setup", [b"SLOWLOG", b"RESET"])
    steps = play(clients, PLAYS[name], resp3=resp3)
    clients.close()
    return steps


def test_to_wait_is_not_to_be_slow(slotlog_address: tuple[str, int]) -> None:
    """Neither SLOWLOG nor INFO counts the time that a blocking command has waited: waiting was its task."""
    waited_us = 500_000
    with closing(Connection(slotlog_address)) as client:
        client.call("CONFIG", "RESETSTAT")
        client.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        client.call("SLOWLOG", "RESET")
        client.call("BLPOP", "nothing-here", waited_us / 1_000_000)
        client.call("WAIT", 1, waited_us // 1000)
        noted = {entry[3][0]: entry[2] for entry in client.call("SLOWLOG", "GET")}
        client.call("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        stats = client.call("INFO", "commandstats").decode()

    assert {b"SLOWLOG", b"BLPOP", b"WAIT"} == set(noted)
    assert waited_us > noted[b"BLPOP"] + noted[b"WAIT"]
    used_us = [int(found) for found in re.findall(r"cmdstat_(?:blpop|wait):calls=1,usec=(\d+),", stats)]
    assert len(used_us) == 2
    assert waited_us > sum(used_us)
