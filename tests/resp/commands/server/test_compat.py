"""Commands that clients send to any Redis are answered as the oracle answers them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.resp.processes import replies, serving
from tests.wire.servers import RespServer

SAME = (
    *("WAIT 0 0", "WAIT 0 100", "WAIT 1 10", "WAIT -1 0", "WAIT a 0", "WAIT 0 -1", "WAIT 0 a", "WAIT 1"),
    *("WAITAOF 2 0 0", "WAITAOF -1 0 0", "WAITAOF a 0 0", "WAITAOF 0 a 0", "WAITAOF 0 -1 0", "WAITAOF 0 0 -1"),
    *("BGSAVE foo", "BGSAVE a b", "SAVE x", "BGREWRITEAOF x", "LASTSAVE x", "TIME x", "ROLE x"),
    *("SHUTDOWN foo", "SHUTDOWN ABORT", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW"),
    *("REPLICAOF NO ONE", "SLAVEOF no one", "REPLICAOF here port", "REPLICAOF here 65536", "REPLICAOF x"),
    *("ASKING", "READONLY x", "READWRITE x"),
    *("FUNCTION LIST", "FUNCTION LIST x", "FUNCTION LIST LIBRARYNAME", "FUNCTION LIST LIBRARYNAME * WITHCODE"),
    *("FUNCTION FLUSH", "FUNCTION FLUSH ASYNC", "FUNCTION FLUSH x", "FUNCTION FLUSH SYNC x", "FUNCTION KILL"),
    *("FUNCTION DELETE x", "FUNCTION", "FUNCTION nosuch", "FUNCTION STATS", "FUNCTION STATS x", "FCALL f 0", "FCALL f"),
    *("FCALL_RO f 0", "FUNCTION LOAD x", "FUNCTION LOAD", "FUNCTION RESTORE x", "FUNCTION DUMP x"),
    *(
        "SCRIPT EXISTS a b",
        "SCRIPT EXISTS",
        "SCRIPT FLUSH",
        "SCRIPT FLUSH SYNC",
        "SCRIPT FLUSH x",
        "SCRIPT FLUSH SYNC x",
        "SCRIPT KILL",
        *("SCRIPT DEBUG NO", "SCRIPT DEBUG x", "SCRIPT SHOW a", "SCRIPT LOAD"),
    ),
    *("SCRIPT nosuch", "MODULE nosuch", "MODULE", "MEMORY nosuch", "MEMORY PURGE", "MEMORY MALLOC-STATS"),
    *("MEMORY DOCTOR x", "OBJECT nosuch", "OBJECT", "COMMAND nosuch", "COMMAND COUNT x", "CONFIG nosuch", "CONFIG GET"),
    *("CONFIG SET", "CONFIG SET maxclients", "CONFIG REWRITE", "CONFIG RESETSTAT x", "CONFIG GET maxmemory"),
    *("CLUSTER nosuch", "CLUSTER", "CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER SLOTS x", "CLUSTER KEYSLOT a"),
    *("CLUSTER COUNTKEYSINSLOT x", "CLUSTER GETKEYSINSLOT 0 1", "CLUSTER MYID", "CLUSTER HELP"),
    "INFO nosuch",
)
"""Commands with the same reply on both sides, RESP2 and RESP3."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A standalone slotlog."""
    with serving(tmp_path_factory.mktemp("compat")) as running:
        yield running


@pytest.fixture
def client(server: RespServer) -> Iterator[Connection]:
    """A connection to it."""
    connection = server.connect()
    yield connection
    connection.close()


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_replies_are_the_oracles(client: Connection, oracle: Connection, protocol: str) -> None:
    """Each command has the oracle's reply."""
    assert replies(oracle, SAME, protocol) == replies(client, SAME, protocol)


@pytest.mark.parametrize("arguments", ["1 0 0", "0 0 100", "1 1 10"])
def test_acknowledged_write_is_durable(client: Connection, arguments: str) -> None:
    """WAITAOF says that an acknowledged write is durable here and on no replica; the oracle has no append-only file."""
    client.call("SET", "a", "1")

    assert [1, 0] == client.call("WAITAOF", *arguments.split())


def test_waiting_for_ever_ends_at_once(client: Connection) -> None:
    """WAIT without an end for replicas, which there will never be, answers at once that there are none."""
    assert (0, [1, 0]) == (client.call("WAIT", "1", "0"), client.call("WAITAOF", "1", "1", "0"))


def test_saving_is_answered(client: Connection) -> None:
    """SAVE, BGSAVE and BGREWRITEAOF answer as Redis; there is nothing to do."""
    assert [
        SimpleString(b"OK"),
        SimpleString(b"Background saving started"),
        SimpleString(b"Background saving started"),
        SimpleString(b"Background append only file rewriting started"),
    ] == client.pipeline([["SAVE"], ["BGSAVE"], ["BGSAVE", "SCHEDULE"], ["BGREWRITEAOF"]])


def test_last_save_is_now(client: Connection) -> None:
    """Everything acknowledged is saved: LASTSAVE and TIME agree to the second, or the second turned between them."""
    saved, (seconds, microseconds) = client.pipeline([["LASTSAVE"], ["TIME"]])

    assert int(seconds) - saved in {0, 1}
    assert 0 <= int(microseconds) < 1_000_000


def test_role_is_a_master_without_replicas(client: Connection) -> None:
    """ROLE is `master`, an offset that grows with each write, and no replicas."""
    before = client.call("ROLE")
    client.call("SET", "a", "1")

    assert [b"master", before[1] + 1, []] == client.call("ROLE")


@pytest.mark.parametrize("command", ["READONLY", "READWRITE"])
def test_no_replica_in_a_standalone_server(client: Connection, command: str) -> None:
    """As in Redis 7.4 they are for a cluster's nodes; Valkey 9.1 takes them."""
    assert ErrorReply(b"ERR This instance has cluster support disabled") == client.call(command)


def test_modules_cannot_be_loaded(client: Connection) -> None:
    """The subcommand that brings code of a module into the server does not exist."""
    assert ErrorReply(b"ERR unknown subcommand 'LOAD'. Try MODULE HELP.") == client.call("MODULE", "LOAD", "x")


def test_replicating_another_server_is_refused(client: Connection) -> None:
    """REPLICAOF with a host is an error that says what to do instead."""
    refused = "ERR slotlog copies nothing from another server: start a second process on the same log"

    assert ErrorReply(refused.encode()) == client.call("REPLICAOF", "127.0.0.1", "6379")


def test_there_are_no_modules(client: Connection) -> None:
    """There are none to list."""
    assert [] == client.call("MODULE", "LIST")


def test_memory_is_that_of_the_process(client: Connection) -> None:
    """MEMORY STATS has numbers of the process, its peak not below them, and how many keys there are."""
    client.call("FLUSHALL")
    client.call("MSET", "a", "1", "b", "2")
    flat = client.call("MEMORY", "STATS")
    stats = dict(zip(flat[::2], flat[1::2], strict=True))

    assert 2 == stats[b"keys.count"]
    assert 0 < stats[b"startup.allocated"] <= stats[b"total.allocated"] <= stats[b"peak.allocated"]


def test_lolwut_names_the_versions(client: Connection) -> None:
    """LOLWUT is a drawing and the versions, for people: verbatim text in RESP3. As in Redis VERSION needs a number."""
    for words in ((), ("VERSION", "5", "1"), ("version",), ("7",)):
        assert client.call("LOLWUT", *words).splitlines()[-1].startswith(b"Redis ver. 7.4.0, slotlog ver. ")
    assert ErrorReply(b"ERR value is not an integer or out of range") == client.call("LOLWUT", "VERSION", "x")


@pytest.mark.parametrize(
    "container", ["CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "OBJECT", "SCRIPT"]
)
def test_containers_have_help(client: Connection, oracle: Connection, container: str) -> None:
    """HELP of a container begins and ends as the oracle's, and names only subcommands that the oracle has too."""
    ours = [line.text for line in client.call(container, "HELP")]
    theirs = [line.text for line in oracle.call(container, "HELP")]

    assert (theirs[0], theirs[-2:]) == (ours[0], ours[-2:])
    assert [] == [line for line in _names(ours) if line not in _names(theirs)]


def _names(lines: list[bytes]) -> list[bytes]:
    return [line.split()[0] for line in lines[1:] if not line.startswith((b" ", b"("))]


def test_shutdown_ends_the_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SHUTDOWN ends the process without a reply, and what was written is there when it is started again."""
    directory = tmp_path_factory.mktemp("shutdown")
    with serving(directory) as running:
        connection = running.connect()
        connection.call("SET", "a", "1")
        with pytest.raises(Exception, match="closed the connection"):
            connection.call("SHUTDOWN", "NOSAVE")
        connection.close()
        running.kill()
        running.start()
        again = running.connect()
        assert b"1" == again.call("GET", "a")
        again.close()


def test_thresholds_decide_about_encodings(client: Connection) -> None:
    """OBJECT ENCODING answers by the thresholds that CONFIG SET has changed, at once, also under their older names."""
    client.pipeline([["DEL", "h"], ["HSET", "h", "a", "1", "b", "2"]])
    before = client.call("OBJECT", "ENCODING", "h")
    client.call("CONFIG", "SET", "hash-max-ziplist-entries", "1")
    after = client.call("OBJECT", "ENCODING", "h")
    client.call("CONFIG", "SET", "hash-max-listpack-entries", "512")

    assert (b"listpack", b"hashtable", b"listpack") == (before, after, client.call("OBJECT", "ENCODING", "h"))


def test_whole_configuration_is_shown(client: Connection) -> None:
    """CONFIG GET * has every parameter once, also those that the process was started with."""
    flat = client.call("CONFIG", "GET", "*")
    values = dict(zip(flat[::2], flat[1::2], strict=True))

    assert len(flat) == 2 * len(values)
    assert (b"127.0.0.1", b"no", b"1") == (
        values[b"bind"],
        values[b"cluster-enabled"],
        values[b"slotlog-partitions"],
    )
    assert str(client._socket.getpeername()[1]).encode() == values[b"port"]


def test_password_is_taken_and_hidden(client: Connection, server: RespServer) -> None:
    """CONFIG SET requirepass asks new connections for it at once, CONFIG GET hides it, and an empty one ends it."""
    client.call("CONFIG", "SET", "requirepass", "s3cret")
    other = server.connect()
    refused, taken = other.pipeline([["GET", "a"], ["AUTH", "s3cret"]])
    shown = client.call("CONFIG", "GET", "requirepass")
    client.call("CONFIG", "SET", "requirepass", "")
    other.close()

    assert (ErrorReply(b"NOAUTH Authentication required."), SimpleString(b"OK")) == (refused, taken)
    assert ([b"requirepass", b"(hidden)"], [b"requirepass", b""]) == (
        shown,
        client.call("CONFIG", "GET", "requirepass"),
    )
