"""Histories of a group whose workers are killed: linearizable where owners answer, sequential where replicas do."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from time import sleep

import pytest
import redis

from slotlog.events import decode
from slotlog.shared.slots import partition_of, slot
from tests.faults.grouped import GroupedWorker, connect
from tests.faults.ledger import Writer
from tests.faults.logs import opened_log
from tests.faults.workers import new_topic
from tests.linearizability.clients import Recorder, prepare
from tests.linearizability.history import verdict
from tests.ops.verbs import wait_until
from tests.real.oracle import Connection
from tests.real.process import free_ports

_OPERATIONS = int(os.environ.get("GROUP_OPERATIONS", "600"))
_KILLS = int(os.environ.get("GROUP_BOUNCES", "1"))
_PARTITIONS = 2
_PREFIX = "{history}"
_LISTS = [f"{_PREFIX}a", f"{_PREFIX}b"]
_PARTITION = partition_of(slot(_PREFIX.encode()), _PARTITIONS)


class _Observing(threading.Thread):
    """A client of one replica that reads two lists of one partition, one after the other, until it is stopped.

    Attributes:
        seen: key and values of each read, in order.
    """

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[str, list[int]]] = []
        self._port = port
        self._ends = threading.Event()

    def run(self) -> None:
        """Read, on a connection for as long as it lasts."""
        while not self._ends.is_set():
            with closing(connect(self._port)) as client:
                try:
                    client.execute_command("READONLY")  # type: ignore[no-untyped-call]
                    while not self._ends.is_set():
                        for name in _LISTS:
                            self.seen.append((name, [int(each) for each in client.lrange(name, 0, -1)]))
                        sleep(0.005)
                except redis.RedisError:
                    sleep(0.05)

    def stop(self) -> None:
        """End after the read under way."""
        self._ends.set()
        self.join()


def unordered(seen: Sequence[tuple[str, list[int]]], pushes: Mapping[str, list[tuple[int, int]]]) -> list[str]:
    """The reads that no one walk through the log explains: each is the state at an offset not before the last one's.

    Args:
        seen: key and values of each read, in the order of one client.
        pushes: offset and value of what was pushed to each key, as in the log.
    """
    at, wrong = -1, []
    for name, values in seen:
        there = pushes[name]
        begin = there[len(values) - 1][0] if values else -1
        end = there[len(values)][0] if len(values) < len(there) else math.inf
        at = max(at, begin)
        if values != [value for _, value in there[: len(values)]] or at >= end:
            wrong.append(f"{name}: {len(values)} values after offset {at}")
    return wrong


def test_unordered_reads_are_found() -> None:
    """A read of an older state, of one that never was, and one older than another key's, are told from good ones."""
    pushes = {"a": [(0, 1), (2, 2)], "b": [(1, 7)]}
    good = [("a", []), ("a", [1]), ("b", [7]), ("a", [1]), ("a", [1, 2]), ("b", [7])]
    assert [] == unordered(good, pushes)
    assert ["a: 1 values after offset 2"] == unordered([("a", [1, 2]), ("a", [1])], pushes)
    assert ["a: 1 values after offset 0"] == unordered([("a", [2])], pushes)
    assert ["b: 0 values after offset 2"] == unordered([("a", [1, 2]), ("b", [])], pushes)


async def _pushes(url: str, topic: str) -> dict[str, list[tuple[int, int]]]:
    """What was pushed to the lists, as the log has it."""
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in _LISTS}
    async with opened_log(url, topic, _PARTITIONS) as log:
        end = await log.end_offset(_PARTITION)
        reader = log.reader({_PARTITION: 0})
        while reader.position(_PARTITION) < end:
            for offset, time_ms, _, value in (await reader.fetch(1000, 1000)).get(_PARTITION, []):
                _, _, name, args, *_ = decode(offset, time_ms, value)
                if name == b"RPUSH" and args[0].decode() in found:
                    found[args[0].decode()].append((offset, int(args[1])))
        await reader.close()
    return found


def _owner(workers: Sequence[GroupedWorker]) -> GroupedWorker | None:
    """The worker that owns the history's keys, as all say."""
    owners = [worker.owners() for worker in workers]
    ports = {port for each in owners for first, port in each.items() if first == _PARTITION * 8192}
    return next((worker for worker in workers if {worker.port} == ports and all(owners)), None)


def _answers(port: int) -> bool:
    with closing(connect(port)) as client:
        try:
            return client.exists(_PREFIX) == 0
        except redis.RedisError:
            return False


@pytest.mark.timeout(300)
def test_owners_are_linearizable_and_replicas_sequential(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Owners are killed meanwhile: one order explains all their replies, and the log explains what replicas showed."""
    topic, url = new_topic(), f"kafka://{kafka_bootstrap}"
    ports, replica_ports = free_ports(2), free_ports(2)
    recorder = Recorder([("127.0.0.1", port) for port in ports], _PREFIX, _OPERATIONS, 1)
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=3, standbys=1)

        def begin(number: int) -> GroupedWorker:
            worker = start(tmp_path / str(number), port=ports[number], replica_port=replica_ports[number])
            return stack.enter_context(worker)

        workers = [begin(number) for number in range(2)]
        wait_until(lambda: all({*each.owners().values()} == {*ports} for each in workers), "both to own")
        owner = _owner(workers)
        assert owner is not None
        wait_until(lambda: _answers(owner.port), "the owner to answer")
        with closing(Connection(("127.0.0.1", owner.port))) as connection:
            prepare(connection, _PREFIX)
        observing = [_Observing(port) for port in replica_ports]
        writer = Writer(ports, _LISTS)
        for thread in (*observing, writer):
            thread.start()
        writer.wait_for_more(5)

        async def record() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(recorder.run())
                for number in range(1, _KILLS + 1):
                    await recorder.reached(_OPERATIONS * number // (_KILLS + 1))
                    await asyncio.to_thread(bounce)

        def bounce() -> None:
            wait_until(lambda: _owner(workers) is not None, "one owner")
            killed = _owner(workers)
            assert killed is not None
            killed.kill()
            workers[ports.index(killed.port)] = begin(ports.index(killed.port))

        asyncio.run(record())
        writer.wait_for_more(5)
        writer.stop()
        for each in observing:
            each.stop()
    found = asyncio.run(_pushes(url, topic))
    judged = verdict(recorder.history, tmp_path)

    assert {} == writer.faults({name: [value for _, value in there] for name, there in found.items()})
    assert ((), ()) == (judged.illegal, judged.undecided)
    assert [[], []] == [unordered(each.seen, found) for each in observing]
    assert any(each.seen for each in observing)
