"""Workers authenticate to each other, and notice when another one is gone."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import trustme
from structlog.testing import capture_logs

from resp.cluster.bus import wire
from resp.cluster.nodes import NodeHealth
from tests.real.oracle import ErrorReply, SimpleString
from tests.real.process import free_ports
from tests.resp.harness import Live, serving, until
from tests.resp.wire.test_tls import write_leaf
from tests.resp.workers import TIMEOUT_S, connected, facing, heard, link_of, listening, peers_of, workers

# ---------------------------------------------------------------------- who may


async def test_only_workers_are_taken_for_workers(tmp_path: Path) -> None:
    """Without a greeting nobody hands over messages or asks how the worker is; a wrong greeting is refused."""
    async with connected(tmp_path, 2) as (first, _):
        topic, run = first.log.topic, first.server.run_id
        greeting = "SLOTLOG", "PEER-HELLO"
        stranger = ErrorReply(b"ERR SLOTLOG PEER-HELLO comes first")
        ours = ErrorReply(b"ERR this worker's topic is t with 2 partitions")
        node = "f" * 40

        assert [stranger, stranger] == [
            await first.ask("SLOTLOG", "PEER-BEAT"),
            await first.ask("SLOTLOG", "PEER-PUBLISH", "c", "m"),
        ]
        assert [
            ErrorReply(b"ERR this worker speaks version 1 with others"),
            ours,
            ours,
            ErrorReply(b"ERR this is the worker that calls: an address in SLOTLOG_REDIS__PEERS is its own"),
            ErrorReply(b"ERR that is no node's id"),
            SimpleString(b"OK"),
        ] == [
            await first.ask(*greeting, "0", topic, "2", node, "r"),
            await first.ask(*greeting, "1", "other", "2", node, "r"),
            await first.ask(*greeting, "1", topic, "3", node, "r"),
            await first.ask(*greeting, "1", topic, "2", node, run),
            await first.ask(*greeting, "1", topic, "2", "x y", "r"),
            await first.ask(*greeting, "1", topic, "2", node, "r"),
        ]


async def test_users_need_the_right(tmp_path: Path) -> None:
    """A user who may publish, or do all that is not dangerous, is no worker; channels count for those who are."""
    async with connected(tmp_path, 2) as (first, _):
        refused = ErrorReply(b"NOPERM User u has no permissions to run the 'slotlog|peer-hello' command")
        greeting = ("SLOTLOG", "PEER-HELLO", "1", first.log.topic, "2", "f" * 40, "r")
        for rules in (("+@pubsub", "&*"), ("+@all", "-@dangerous", "&*")):
            await first.ask("ACL", "SETUSER", "u", "reset", "on", ">p", *rules)
            client = await first.client()
            await client.call("AUTH", "u", "p")
            assert refused == await client.call(*greeting)
        await first.ask("ACL", "SETUSER", "u", "reset", "on", ">p", "+@all", "&free")
        client = await first.client()
        await client.call("AUTH", "u", "p")
        await client.call(*greeting)

        assert [0, ErrorReply(b"NOPERM No permissions to access a channel")] == [
            await client.call("SLOTLOG", "PEER-PUBLISH", channel, "m") for channel in ("free", "other")
        ]


async def test_a_message_is_not_passed_on(tmp_path: Path) -> None:
    """What a worker hands over is heard by the other one's clients, and comes back to nobody."""
    async with connected(tmp_path, 2) as (first, second):
        client = await first.client()
        await client.call("SLOTLOG", "PEER-HELLO", "1", first.log.topic, "2", "f" * 40, "r")
        listener = await listening(second, "SUBSCRIBE", "c")
        await client.call("SLOTLOG", "PEER-PUBLISH", "c", "spoofed")
        await first.ask("PUBLISH", "c", "true")

        assert [[b"message", b"c", b"true"]] == await heard(listener, 1)


async def test_workers_log_in(tmp_path: Path) -> None:
    """Where a password is set the workers use it, or a user of their own with another."""
    async with connected(tmp_path, 2, password="p") as lives:
        assert [True, True] == [link_of(live).is_up for live in lives]
    users = tmp_path / "users.acl"
    users.write_text("user default off\nuser bus on >secret +auth +slotlog|peer-hello +slotlog|peer-beat\n")
    async with connected(tmp_path, 2, acl_file=users, peer_user="bus", peer_password="secret") as lives:
        assert [True, True] == [link_of(live).is_up for live in lives]


async def test_workers_log_in_with_the_password_of_now(tmp_path: Path) -> None:
    """A password changed by CONFIG SET at each worker is the one that they log in with when a link is made anew."""
    async with connected(tmp_path, 2, password="old") as lives:
        for live in lives:
            client = await live.client()
            await client.call("AUTH", "old")
            assert SimpleString(b"OK") == await client.call("CONFIG", "SET", "requirepass", "new")
        up_since = [link_of(live).up_since_ms for live in lives]
        for live in lives:
            client = await live.client()
            await client.call("AUTH", "new")
            await client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        for live, before in zip(lives, up_since, strict=True):
            await until(lambda: link_of(live).up_since_ms > before)  # noqa: B023 - called at once

        assert [True, True] == [link_of(live).is_up for live in lives]


async def test_a_wrong_password_is_said(tmp_path: Path) -> None:
    """A link whose login is refused stays down, and the reason is known; the password is in no log line."""
    with capture_logs() as said:
        async with workers(tmp_path, 2, password="right", node_timeout_seconds=TIMEOUT_S) as made:
            await made.start(0)
            second = await made.start(1, peer_password="hidden-word")
            await until(lambda: second.server.bus.peers.count(NodeHealth.FAILED) == 1)

            assert "WRONGPASS" in link_of(second).reason
    assert [] == [line for line in said if "hidden-word" in str(line)]


async def test_workers_talk_over_tls(tmp_path: Path) -> None:
    """With tls_cluster the addresses of the peers are reached over TLS, with the server's own certificate."""
    authority = trustme.CA()
    cert, key = write_leaf(authority.issue_cert("127.0.0.1"), tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = {"tls_cert": cert, "tls_key": key, "tls_ca": tmp_path / "ca.pem", "tls_cluster": True}
    plain, ports = free_ports(2), free_ports(2)
    async with AsyncExitStack() as stack:
        lives = [
            await stack.enter_async_context(
                serving(
                    tmp_path,
                    partitions=2,
                    own=(number,),
                    port=plain[number],
                    settings={**files, "peers": peers_of(ports), "tls_address": ("127.0.0.1", ports[number])},
                )
            )
            for number in range(2)
        ]
        listener = await listening(lives[1], "SUBSCRIBE", "c")
        await lives[0].ask("PUBLISH", "c", "m")

        assert [[b"message", b"c", b"m"]] == await heard(listener, 1)


async def test_a_pause_of_clients_is_none_of_workers(tmp_path: Path) -> None:
    """CLIENT PAUSE holds no message of another worker back."""
    async with connected(tmp_path, 2) as (first, second):
        listener = await listening(second, "SUBSCRIBE", "c")
        await second.ask("CLIENT", "PAUSE", "600000", "ALL")
        await first.ask("PUBLISH", "c", "m")

        assert [[b"message", b"c", b"m"]] == await heard(listener, 1)


async def test_publish_with_unknown_workers_is_refused(tmp_path: Path) -> None:
    """Where partitions are somebody's whom nobody has named, PUBLISH is an error, and a warning was in the log."""
    with capture_logs() as said:
        async with serving(tmp_path, partitions=4, own=(0, 1)) as live:
            reply = await live.ask("PUBLISH", "c", "m")
    warnings = [line["warning"] for line in said if line["event"] == "peers"]

    expected = b"ERR PUBLISH would not reach every worker: partition 2 is not in SLOTLOG_REDIS__PEERS"
    assert ErrorReply(expected) == reply
    assert [True] == [warning.startswith("partitions 2-3 are neither") for warning in warnings]


# ---------------------------------------------------------------------- who is there


async def info(live: Live) -> dict[str, str]:
    """CLUSTER INFO."""
    text = await live.ask("CLUSTER", "INFO")
    return dict(line.split(":") for line in text.decode().splitlines())


async def test_the_other_of_two_fails(tmp_path: Path) -> None:
    """When one of two workers is gone the other says so everywhere, and takes it back when it returns."""
    names = "cluster_state", "cluster_slots_ok", "cluster_slots_pfail", "cluster_slots_fail"
    async with workers(tmp_path, 2, node_timeout_seconds=TIMEOUT_S) as made:
        first = await made.start(0)
        await made.start(1)
        await until(lambda: link_of(first).beats > 0)
        well = await info(first)
        await made.stop(1)
        await until(lambda: first.server.bus.peers.count(NodeHealth.FAILED) == 1)
        ill = await info(first)
        line = (await first.ask("CLUSTER", "NODES")).decode().splitlines()[1]
        shards = await first.ask("CLUSTER", "SHARDS")
        links = await first.ask("CLUSTER", "LINKS")
        await made.start(1)
        await until(lambda: first.server.bus.peers.count(NodeHealth.ONLINE) == 1)
        again = await info(first)

        assert ["ok", "16384", "0", "0"] == [well[name] for name in names]
        assert ["fail", "8192", "0", "8192"] == [ill[name] for name in names]
        assert (True, True) == (" master,fail - " in line, line.endswith(" disconnected 8192-16383"))
        assert [b"online", b"fail"] == [shard[3][0][-1] for shard in shards]
        assert [] == links
        assert ["ok", "16384", "0", "0"] == [again[name] for name in names]


async def test_a_majority_decides(tmp_path: Path) -> None:
    """One of three that answers nobody is suspected by each of the others, and failed since both say it."""
    async with workers(tmp_path, 3, node_timeout_seconds=TIMEOUT_S) as made:
        first, second = await made.start(0), await made.start(1)
        third = first.server.cluster.nodes[2]
        await until(lambda: first.server.bus.peers.seen(third).health is NodeHealth.FAILED)
        reports = await first.ask("CLUSTER", "COUNT-FAILURE-REPORTS", third.node_id)
        await made.stop(1)
        # alone among three it can tell nothing
        await until(lambda: first.server.bus.peers.count(NodeHealth.SUSPECTED) == 2)
        alone = await info(first)

        assert 1 == reports
        assert ("fail", "10922") == (alone["cluster_state"], alone["cluster_slots_pfail"])
        assert second.server.cluster.partitions == 3


async def test_links_are_shown(tmp_path: Path) -> None:
    """CLUSTER LINKS has the connection to the other worker and the one from it; CLIENT LIST names the latter."""
    async with connected(tmp_path, 2) as (first, second):
        await until(lambda: any(session.peer for session in first.server.sessions.values()))
        links = await first.ask("CLUSTER", "LINKS")
        clients = await first.ask("CLIENT", "LIST")
        other = second.server.cluster.me.node_id.encode()

        assert [[b"to", other], [b"from", other]] == [[link[1], link[3]] for link in links]
        assert b"name=peer-" + other in clients


async def test_a_worker_with_other_partitions_is_told_of(tmp_path: Path) -> None:
    """A worker whose own partitions are not those that the peers give it is named in the log, once."""
    beat = b"+" + wire.Beat("0" * 40, (0, 1), loading=True, offset=7, failing=()).pack() + b"\r\n"

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(beat if name == b"PEER-BEAT" else b"+OK\r\n")
        return True

    with capture_logs() as said:
        async with facing(tmp_path, answer, node_timeout_seconds=TIMEOUT_S) as live:
            await until(lambda: link_of(live).beats > 2)
            shard = (await live.ask("CLUSTER", "SHARDS"))[1]

    assert [[0, 1]] == [line["own"] for line in said if line["event"] == "peer_owns_others"]
    assert [b"replication-offset", 7, b"health", b"loading"] == shard[3][0][-4:]
