"""A group with one partition is a Redis with a replica: clients find the master by Redis Sentinel's protocol."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

import pytest
import redis
from redis.sentinel import Sentinel

from tests.clients.programs import HERE, INSTALLED
from tests.faults.grouped import GroupedWorker, connect
from tests.faults.workers import new_topic
from tests.ops.verbs import metric, wait_until
from tests.real.process import free_ports

_PATIENCE_SECONDS = 60.0
_SESSION_SECONDS = 20.0  # a busy machine holds a process up for some seconds, and nobody is to be given up for that
_KILLED_SESSION_SECONDS = 5.0  # of one that is killed: so long nobody takes over


class _Pair:
    """Two workers of a group with one partition, and Sentinel clients of them."""

    def __init__(self, stack: ExitStack, home: Path, kafka: str, session_seconds: float = _SESSION_SECONDS) -> None:
        topic = new_topic()
        self.name = f"{topic}-g"
        self.ports, self.sentinel_ports = free_ports(2), free_ports(2)
        self._stack = stack
        self._start = partial(
            GroupedWorker,
            log_url=f"kafka://{kafka}",
            topic=topic,
            partitions=1,
            session_seconds=session_seconds,
            standbys=1,
            http="127.0.0.1:0",
        )
        self._home = home
        self.workers = [self.start(0), self.start(1)]
        places = [("127.0.0.1", port) for port in self.sentinel_ports]
        self.sentinel = Sentinel(places, socket_timeout=5)  # type: ignore[no-untyped-call]
        for each in self.sentinel.sentinels:
            stack.callback(each.close)

    def client(self) -> Any:
        """One that asks the Sentinels where the master is."""
        client = self.sentinel.master_for(self.name)  # type: ignore[no-untyped-call]
        self._stack.callback(client.close)
        return client

    def start(self, number: int) -> GroupedWorker:
        """Start a worker, on its old disk if it has run before."""
        return self._stack.enter_context(
            self._start(self._home / str(number), port=self.ports[number], sentinel_port=self.sentinel_ports[number])
        )

    def places(self) -> tuple[int, list[int]]:
        """The ports of the master and of its replicas, as a Sentinel says; 0 if there is no master."""
        try:
            master = self.sentinel.discover_master(self.name)[1]  # type: ignore[no-untyped-call]
            slaves = self.sentinel.discover_slaves(self.name)  # type: ignore[no-untyped-call]
        except redis.RedisError:
            return 0, []
        return master, [port for _, port in slaves]

    def wait_for_both(self) -> tuple[GroupedWorker, GroupedWorker]:
        """The master, and its replica, once both are there."""
        wait_until(lambda: sorted(self.ports) == sorted([self.places()[0], *self.places()[1]]), "master and replica")
        master = self.ports.index(self.places()[0])
        return self.workers[master], self.workers[1 - master]


@contextmanager
def _counting_with_ioredis(pair: _Pair, key: str) -> Iterator[tuple[IO[bytes], subprocess.Popen[bytes]]]:
    script = HERE / "node" / "ioredis_sentinel.js"
    command = ["node", str(script), pair.name, key, *map(str, pair.sentinel_ports)]
    environment = {**os.environ, "NODE_PATH": str(INSTALLED / "node" / "node_modules")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        try:
            yield running.stdout, running
        finally:
            running.kill()


def _metric(worker: GroupedWorker, name: str) -> dict[str, float]:
    if not any(line["event"] == "http" for line in worker.seen):
        worker.wait_for("http")
    return metric(worker, f"slotlog_{name}")


def _raise(client: Any, key: str) -> bool:
    try:
        client.incr(key)
    except redis.RedisError:
        sleep(0.02)
        return False
    return True


@pytest.mark.timeout(240)
def test_clients_of_sentinels_ride_through_a_kill(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The master is killed: redis-py and ioredis, which ask the workers as Sentinels, go on with the replica.

    Each acknowledged write is there once. A Sentinel tells its listeners of the switch. Who was killed comes back as
    the replica.
    """
    with ExitStack() as stack:
        pair = _Pair(stack, tmp_path, kafka_bootstrap, _KILLED_SESSION_SECONDS)
        master, replica = pair.wait_for_both()
        client = pair.client()
        beside: Any = connect(pair.sentinel_ports[pair.workers.index(replica)])
        stack.callback(beside.close)
        listening = beside.pubsub()
        stack.callback(listening.close)
        wait_until(lambda: beside.sentinel_get_master_addr_by_name(pair.name), "it to know whom to tell of")
        listening.subscribe("+switch-master")
        assert listening.get_message(timeout=30) is not None  # that it listens
        output, counting = stack.enter_context(_counting_with_ioredis(pair, "other"))
        assert b"counting\n" == output.readline()
        acknowledged = sum(_raise(client, "n") for _ in range(20))
        assert 20 == acknowledged

        master.kill()
        until, tried = monotonic() + _PATIENCE_SECONDS, 0
        while acknowledged < 40:
            assert monotonic() < until, "no failover"
            acknowledged += _raise(client, "n")
            tried += 1
        message = listening.get_message(timeout=30)
        assert message is not None
        places = f"127.0.0.1 {master.port} 127.0.0.1 {replica.port}"
        assert f"{pair.name} {places}".encode() == message["data"]

        pair.workers[pair.workers.index(master)] = pair.start(pair.workers.index(master))
        assert (replica.port, master.port) == tuple(worker.port for worker in pair.wait_for_both())
        before = int(client.get("other"))
        wait_until(lambda: int(client.get("other")) > before, "ioredis to count on")
        assert counting.stdin is not None
        counting.stdin.close()
        seen = json.loads(output.readline())
        value, other = int(client.get("n")), int(client.get("other"))

    assert acknowledged <= value <= acknowledged + tried
    assert seen["acknowledged"] <= other <= seen["acknowledged"] + seen["failed"]
    assert seen["failed"] > 0


@pytest.mark.timeout(240)
def test_master_and_replica_are_those_of_a_standalone_redis(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The master takes keys of any slot and database together; the replica answers any read, and refuses writes.

    ROLE, INFO, HELLO and WAIT say who is who. SLOTLOG WAITFOR gives a client of the replica what it has written.
    """
    with ExitStack() as stack:
        pair = _Pair(stack, tmp_path, kafka_bootstrap)
        master, replica = pair.wait_for_both()
        client: Any = connect(master.port)
        other: Any = connect(replica.port)
        stack.callback(client.close)
        stack.callback(other.close)
        run, ask = client.execute_command, other.execute_command

        assert run("MSET", "a", 1, "b", 2, "{c}d", 3)
        run("SELECT", 3)
        assert [True, 1, b"5"] == client.pipeline().set("x", 5).exists("x").get("x").execute()
        assert 1 == run("WAIT", 1, 60_000)
        assert [0] == [run("WAIT", 2, 1) - 1]
        partition, offset = run("SLOTLOG POSITION")
        assert 1 == ask("SLOTLOG WAITFOR", partition, offset, 60_000)
        wait_until(lambda: ask("PING"), "the replica to answer")
        assert [b"1", b"2", b"3"] == ask("MGET", "a", "b", "{c}d")
        assert (3, 0) == (ask("DBSIZE"), ask("EXISTS", "x"))
        assert ask("SELECT", 3)
        assert [b"x"] == ask("KEYS", "*")
        assert [b"5", 1] == other.pipeline().get("x").exists("x").execute()
        assert b"5" == ask("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "x")
        for words in (["SET", "x", 6], ["FLUSHALL"], ["BLPOP", "l", 1], ["EVAL", "return redis.call('DEL', 'x')", 0]):
            with pytest.raises(redis.exceptions.ReadOnlyError, match="can't write against a read only replica"):
                ask(*words)

        at_master, at_replica = run("ROLE"), ask("ROLE")
        assert (b"master", [[b"127.0.0.1", b"%d" % replica.port]]) == (at_master[0], [at_master[2][0][:2]])
        assert [b"slave", b"127.0.0.1", master.port, b"connected"] == at_replica[:4]
        for each, is_what in ((run, b"master"), (ask, b"replica")):
            facts = each("HELLO", 2)
            assert is_what == facts[facts.index(b"role") + 1]
        shown, mine = dict(client.info()), dict(other.info())
        assert ("master", 1, replica.port) == (shown["role"], shown["connected_slaves"], shown["slave0"]["port"])
        assert ("slave", master.port, "up") == (mine["role"], mine["master_port"], mine["master_link_status"])
        assert (shown["db0"]["keys"], shown["db3"]["keys"]) == (mine["db0"]["keys"], mine["db3"]["keys"])
        assert {'partition="0",role="owner"': 1, 'partition="0",role="follower"': 0} == _metric(
            master, "partition_role"
        )
        assert {'partition="0",role="owner"': 0, 'partition="0",role="follower"': 1} == _metric(
            replica, "partition_role"
        )
        wait_until(lambda: {'partition="0"': 0.0} == _metric(replica, "standby_lag_events"), "the replica to be near")
        for name, value in (("members", 2), ("lost", 0), ("standbys_missing", 0), ("partitions_moving", 0)):
            assert {"": value} == _metric(master, f"group_{name}")
        assert _metric(master, "group_rebalances_total")[""] > 0
        listening = other.pubsub()
        stack.callback(listening.close)
        listening.subscribe("news")
        assert listening.get_message(timeout=30)
        client.publish("news", "hello")
        wait_until(lambda: (each := listening.get_message()) and b"hello" == each["data"], "the message")


@pytest.mark.timeout(240)
def test_a_master_that_is_stopped_hands_over(tmp_path: Path, kafka_bootstrap: str) -> None:
    """SIGTERM to the master: a Sentinel client's writes go on at the replica, each of them once."""
    with ExitStack() as stack:
        pair = _Pair(stack, tmp_path, kafka_bootstrap)
        master, replica = pair.wait_for_both()
        client = pair.client()
        assert _raise(client, "n")
        assert 0 == master.terminate()
        wait_until(lambda: _raise(client, "n"), "the replica to take writes")
        assert (replica.port, b"2") == (pair.places()[0], client.get("n"))
