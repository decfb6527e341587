"""Standbys answer reads that may be old, never one older than the last, and take over."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import redis

from tests.faults.grouped import Counting, GroupedWorker, connect, keys_of
from tests.faults.workers import new_topic
from tests.ops.verbs import wait_until
from tests.real.process import free_ports

_PARTITIONS = 2


class _Reading(threading.Thread):
    """A client of a replica that reads a counter until it is stopped.

    Attributes:
        seen: the values, in order.
        refused: replies that were errors.
    """

    def __init__(self, port: int, key: str) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.refused: list[str] = []
        self._client = connect(port)
        self._key = key
        self._ends = threading.Event()

    def run(self) -> None:
        """Read on one connection, so that all is seen in order."""
        self._client.execute_command("READONLY")  # type: ignore[no-untyped-call]
        while not self._ends.is_set():
            try:
                self.seen.append(int(self._client.get(self._key) or 0))
            except redis.ResponseError as error:
                self.refused.append(str(error))
            sleep(0.002)

    def stop(self) -> None:
        """End after the read under way."""
        self._ends.set()
        self.join()
        self._client.close()


def _replication(client: redis.Redis) -> dict[str, Any]:
    return dict(client.info("replication"))


def _answers(client: redis.Redis, key: str) -> bool:
    try:
        client.get(key)
    except redis.ResponseError:
        return False
    return True


@pytest.mark.timeout(240)
def test_a_replica_never_goes_back(tmp_path: Path, kafka_bootstrap: str) -> None:
    """A replica sends writes to the owner, answers READONLY clients in order, and does so while its owner is killed.

    Who waits there for the position of a write reads it. WAIT and INFO tell of the replica, which then takes over.
    """
    topic, url = new_topic(), f"kafka://{kafka_bootstrap}"
    ports, replica_ports = free_ports(2), free_ports(2)
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4, standbys=1)
        workers = [
            stack.enter_context(start(tmp_path / str(number), port=port, replica_port=replica_ports[number]))
            for number, port in enumerate(ports)
        ]
        wait_until(lambda: {*ports} == {*workers[0].owners().values()}, "both to own")
        key = next(each for each in keys_of(_PARTITIONS) if Counting(ports, [each]).finds(each) == ports[0])
        owner, replica = connect(ports[0]), connect(replica_ports[1])
        stack.callback(owner.close)
        stack.callback(replica.close)
        owner.incr(key)
        with pytest.raises(redis.exceptions.MovedError):
            replica.get(key)
        replica.execute_command("READONLY")  # type: ignore[no-untyped-call]
        wait_until(lambda: _answers(replica, key), "the replica to be ready")
        with pytest.raises(redis.exceptions.MovedError) as moved:
            replica.incr(key)
        assert ports[0] == moved.value.port

        for number in range(2, 6):
            owner.incr(key)
            partition, offset = owner.execute_command("SLOTLOG POSITION")  # type: ignore[no-untyped-call]
            assert 1 == replica.execute_command("SLOTLOG WAITFOR", partition, offset, 60_000)  # type: ignore[no-untyped-call]
            assert b"%d" % number == replica.get(key)
        assert 1 == owner.execute_command("WAIT", 1, 60_000)  # type: ignore[no-untyped-call]
        shown, mine = _replication(owner), _replication(replica)
        assert ("master", 1, replica_ports[1]) == (shown["role"], shown["connected_slaves"], shown["slave0"]["port"])
        assert ("slave", ports[0]) == (mine["role"], mine["master_port"])

        counting, reading = Counting(ports, [key]), _Reading(replica_ports[1], key)
        counting.start()
        stack.callback(counting.stop)
        reading.start()
        stack.callback(reading.stop)
        counting.wait_for_more(20)
        workers[0].kill()
        counting.wait_for_more(20)
        until = monotonic() + 60
        while reading.seen[-1] < counting.acknowledged[key]:
            assert monotonic() < until, (reading.seen[-1], counting.acknowledged)
            sleep(0.02)
        counting.stop()
        reading.stop()
        assert 0 == workers[1].terminate()

    assert reading.seen == sorted(reading.seen)
    assert len({*reading.seen}) > 2
