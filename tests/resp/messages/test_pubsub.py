"""Pub/Sub: byte for byte what valkey-server answers and delivers, in RESP2 and RESP3."""

from __future__ import annotations

import pytest

from resp.catalog.server_registry import SERVER_SPECS
from resp.messages.pubsub import allowed_while_subscribed
from resp.settings.startup import RespSettings
from slotlog.shared.errors import CROSS_SLOT
from tests.real.oracle import ErrorReply, Oracle
from tests.resp.plays import OWN_MESSAGES, PUBSUB, SILENCED
from tests.resp.scripts import OracleClients, OurClients, play


@pytest.mark.parametrize("resp3", [False, True])
def test_same_bytes_as_the_oracle(oracle_server: Oracle, resp3: bool) -> None:
    """Every reply and message is the oracle's: subscribing, leaving, publishing, looking, inside MULTI as well."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, PUBSUB, resp3=resp3)
    theirs.close()

    assert expected == play(OurClients(), PUBSUB, resp3=resp3)


def test_patterns_hear_in_order_of_their_first_subscription() -> None:
    """One client that hears a message three ways gets it from the channel first, then from the oldest pattern on.

    The oracle's patterns stand in the order of its hash table.
    """
    clients = OurClients()
    for command in (b"PSUBSCRIBE x*", b"PSUBSCRIBE ?", b"SUBSCRIBE x"):
        clients.say("a", command.split())

    got = clients.say("b", [b"PUBLISH", b"x", b"m"])

    assert got == {
        "a": b"*4\r\n$8\r\npmessage\r\n".join(
            [
                b"*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n",
                b"$2\r\nx*\r\n$1\r\nx\r\n$1\r\nm\r\n",
                b"$1\r\n?\r\n$1\r\nx\r\n$1\r\nm\r\n",
            ]
        ),
        "b": b":3\r\n",
    }


def test_own_message_comes_behind_the_reply(oracle_server: Oracle) -> None:
    """Who publishes to itself reads its reply first, that of a whole EXEC too, then the messages, as on the oracle."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, OWN_MESSAGES, resp3=True)
    theirs.close()

    assert expected == play(OurClients(), OWN_MESSAGES, resp3=True)
    assert {"a": b":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n"} in [got for _, got in expected]


@pytest.mark.parametrize("resp3", [False, True])
def test_confirmations_are_not_silenced(oracle_server: Oracle, resp3: bool) -> None:
    """CLIENT REPLY OFF and SKIP leave out replies, not what SUBSCRIBE and its kin confirm, as on the oracle."""
    theirs = OracleClients(oracle_server)

    expected = play(theirs, SILENCED, resp3=resp3)
    theirs.close()

    assert expected == play(OurClients(), SILENCED, resp3=resp3)
    assert "c: SUBSCRIBE x y" in [line for line, got in expected if "c" in got]


def test_nothing_is_left_of_a_client_that_is_gone() -> None:
    """A closed connection, and a RESET, leave no subscription behind: no copy is counted, no name is listed."""
    clients = OurClients()
    for name in ("a", "b"):
        for command in (b"SUBSCRIBE x y", b"PSUBSCRIBE x*", b"SSUBSCRIBE s"):
            clients.say(name, command.split())

    clients.say("a", [b"QUIT"])
    clients.say("b", [b"RESET"])

    pubsub = clients.server.pubsub
    assert clients.say("c", [b"PUBLISH", b"x", b"m"]) == {"c": b":0\r\n"}
    assert [{}, {}, {}] == [kind.by_name for kind in (pubsub.channels, pubsub.patterns, pubsub.shard_channels)]
    assert not pubsub.is_heard


def test_many_patterns_come_and_go() -> None:
    """Matchers of patterns that nobody listens to any more are not kept."""
    clients = OurClients()
    for number in range(100):
        clients.say("a", [b"PSUBSCRIBE", b"%d*" % number])
        clients.say("b", [b"PUBLISH", b"x", b"m"])
        clients.say("a", [b"PUNSUBSCRIBE"])

    assert len(clients.server.pubsub._matchers) <= 1


def test_shard_channels_have_slots() -> None:
    """In a cluster shard channels are where keys of their names are; plain channels are everywhere."""
    peers = "0=127.0.0.1:7001,1-3=127.0.0.1:7002"
    clients = OurClients(RespSettings(partitions=4, own=(0,), peers=peers))
    moved, crossed = b"-MOVED 15495 127.0.0.1:7002\r\n", f"-{CROSS_SLOT}\r\n".encode()

    joined_again = b"*3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n"
    expected = {
        b"SSUBSCRIBE b": b"*3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n",
        b"SSUBSCRIBE b {b}2": joined_again + b"*3\r\n$10\r\nssubscribe\r\n$4\r\n{b}2\r\n:2\r\n",
        b"SSUBSCRIBE a": moved,
        b"SSUBSCRIBE b a": crossed,
        b"SUNSUBSCRIBE b a": crossed,
        b"SUNSUBSCRIBE b": b"*3\r\n$12\r\nsunsubscribe\r\n$1\r\nb\r\n:1\r\n",
        b"SUNSUBSCRIBE": b"*3\r\n$12\r\nsunsubscribe\r\n$4\r\n{b}2\r\n:0\r\n",
        b"SPUBLISH a x": moved,
        b"SPUBLISH b x": b":0\r\n",
        b"PUBLISH a x": b":0\r\n",
    }

    assert expected == {command: clients.say("a", command.split())["a"] for command in expected}


def test_shard_channels_are_no_keys(oracle_server: Oracle) -> None:
    """A user without any key may use the channels that are allowed, and those alone."""
    script = """
        a: ACL SETUSER pubsub-bob on >pw +@all resetkeys resetchannels &free*
        b: AUTH pubsub-bob pw
        b: SPUBLISH free x
        b: SPUBLISH other x
        b: SSUBSCRIBE free
        b: SSUBSCRIBE other
        b: SUNSUBSCRIBE other
        b: SUNSUBSCRIBE free
        b: PSUBSCRIBE free*
        b: PSUBSCRIBE *
        b: PUNSUBSCRIBE
        a: ACL DELUSER pubsub-bob
    """
    theirs = OracleClients(oracle_server)

    expected = play(theirs, script)
    theirs.close()

    assert expected == play(OurClients(), script)


def test_what_a_subscriber_may_send(oracle_server: Oracle) -> None:
    """Of all commands of the server, those that a RESP2 subscriber may send are the oracle's."""
    refused = {}
    for name in sorted(SERVER_SPECS):
        words = name.split(b"|")
        connection = oracle_server.connect()
        connection.call("SUBSCRIBE", "x")
        reply = connection.call(*words, *[b"x"] * max(0, arity(oracle_server, name) - len(words)))
        connection.close()
        if not (isinstance(reply, ErrorReply) and b"unknown" in reply.text):
            refused[name] = isinstance(reply, ErrorReply) and b"allowed in this context" in reply.text

    assert refused == {name: not allowed_while_subscribed(name) for name in refused}


def arity(server: Oracle, name: bytes) -> int:
    """How many words a command needs at least on the oracle; 0 when it has no such command."""
    connection = server.connect()
    info = connection.call("COMMAND", "INFO", name.lower())[0]
    connection.close()
    return abs(info[1]) if isinstance(info, list) else 0
