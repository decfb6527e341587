"""Partitions that move in the middle of something: a transaction, a blocking pop, a snapshot, a restore."""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGKILL
from time import sleep

import pytest
import redis

from ops.snapshots.steps import Step
from tests.faults.grouped import GroupedWorker, connect, keys_of
from tests.faults.ledger import Writer, lists
from tests.faults.logs import opened_log
from tests.faults.workers import new_topic
from tests.ops.verbs import wait_until
from tests.real.object_store import ObjectStore
from tests.real.process import free_ports

_PARTITIONS = 2
_PAUSE_SECONDS = 0.02


class _Exchanging(threading.Thread):
    """Moves numbers from one list to another of the same slot, one by one, in transactions of two commands.

    Attributes:
        moved: transactions whose replies were those of both commands.
        torn: replies of transactions that were neither whole nor an error.
    """

    def __init__(self, ports: list[int], key: str) -> None:
        super().__init__(daemon=True)
        self.moved = 0
        self.torn: list[object] = []
        self._ports = ports
        self._names = f"{{{key}}}from", f"{{{key}}}to"
        self._ends = threading.Event()

    def run(self) -> None:
        """One transaction after the other, wherever the owner is."""
        port, numbers = self._ports[0], count()
        while not self._ends.is_set():
            number = next(numbers)
            with closing(connect(port)) as client:
                pipeline = client.pipeline(transaction=True)
                for name in self._names:
                    pipeline.rpush(name, number)
                try:
                    replies = pipeline.execute(raise_on_error=False)
                except redis.exceptions.MovedError as error:
                    port = error.port
                except redis.RedisError:
                    port = self._ports[(self._ports.index(port) + 1) % len(self._ports)]
                    sleep(_PAUSE_SECONDS)
                else:
                    port = self._seen(replies, port)

    def _seen(self, replies: list[object], port: int) -> int:
        if all(isinstance(reply, int) for reply in replies) and len({*replies}) == 1:
            self.moved += 1
        elif isinstance(error := replies[0], redis.exceptions.MovedError):
            return int(error.port)
        elif not isinstance(replies[0], redis.RedisError):
            self.torn.append(replies)
        return port

    def wait_for_more(self, transactions: int) -> None:
        """Wait until there are so many more."""
        wanted = self.moved + transactions
        wait_until(lambda: self.moved >= wanted or not self.is_alive(), "transactions")

    def stop(self) -> None:
        """End after the one under way."""
        self._ends.set()
        self.join()


class _Popping(threading.Thread):
    """A client that waits for elements of a list, again and again, wherever its owner is.

    Attributes:
        popped: what it was given.
        sent_on: so often it was sent to another worker.
    """

    def __init__(self, ports: list[int], key: str) -> None:
        super().__init__(daemon=True)
        self.popped: list[int] = []
        self.sent_on = 0
        self._ports, self._key = ports, key
        self._ends = threading.Event()

    def run(self) -> None:
        """BLPOP, which waits for half a minute."""
        port = self._ports[0]
        while not self._ends.is_set():
            with closing(redis.Redis(port=port, socket_timeout=60, protocol=2)) as client:
                try:
                    given = client.blpop([self._key], 1 if self._ends.is_set() else 30)
                except redis.exceptions.MovedError as error:
                    self.sent_on += 1
                    port = error.port
                except redis.RedisError:
                    port = self._ports[(self._ports.index(port) + 1) % len(self._ports)]
                    sleep(_PAUSE_SECONDS)
                else:
                    self.popped += [int(given[1])] if given else []


@pytest.fixture
def ports() -> list[int]:
    """Of three workers."""
    return free_ports(3)


def _blocked(worker: GroupedWorker) -> int:
    """How many of its clients are blocked."""
    with closing(connect(worker.port)) as client:
        return int(client.info("clients")["blocked_clients"])


def _owned_by(worker: GroupedWorker, ports: list[int]) -> bool:
    return {*worker.owners().values()} == {*ports}


@pytest.mark.timeout(240)
def test_transactions_and_blocking_pops_while_partitions_move(
    tmp_path: Path, kafka_bootstrap: str, ports: list[int]
) -> None:
    """A second worker joins and the first is stopped: each transaction is whole, each element is given to one client.

    A client that is blocked is sent to the new owner, as in Redis.
    """
    topic, url = new_topic(), f"kafka://{kafka_bootstrap}"
    keys = keys_of(_PARTITIONS)
    queues = [f"{{{key}}}queue" for key in keys]
    exchanging = [_Exchanging(ports[:2], key) for key in keys]
    popping = [_Popping(ports[:2], queue) for queue in queues]
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4)
        first = stack.enter_context(start(tmp_path / "0", port=ports[0]))
        wait_until(lambda: _owned_by(first, ports[:1]), "the first worker to own")
        for thread in (*exchanging, *popping):
            thread.start()
        for each in exchanging:
            each.wait_for_more(3)
        wait_until(lambda: _blocked(first) == len(popping), "all who pop to be blocked")
        before = sum(each.sent_on for each in popping)
        second = stack.enter_context(start(tmp_path / "1", port=ports[1]))
        wait_until(lambda: _owned_by(first, ports[:2]), "the second worker to own")
        wait_until(lambda: sum(each.sent_on for each in popping) > before, "a blocked client to be sent on")
        for each in exchanging:
            each.wait_for_more(3)
        writer = Writer(ports[:2], queues)
        writer.start()
        writer.wait_for_more(5)
        assert 0 == first.terminate()
        wait_until(lambda: _owned_by(second, ports[1:2]), "the second worker to own all")
        writer.wait_for_more(5)
        writer.stop()
        for each in exchanging:
            each.wait_for_more(3)
            each.stop()
        wait_until(lambda: not any(lists(ports[1:2], queues).values()), "all elements to be given")
        found = [lists(ports[1:2], [f"{{{key}}}from", f"{{{key}}}to"]) for key in keys]
        second.kill()

    assert [[], []] == [each.torn for each in exchanging]
    for key, one in zip(keys, found, strict=True):
        numbers = one[f"{{{key}}}from"]
        assert (numbers, len({*numbers})) == (one[f"{{{key}}}to"], len(numbers))
    assert {} == writer.faults(dict(zip(queues, [each.popped for each in popping], strict=True)))


@pytest.mark.timeout(300)
def test_an_empty_worker_takes_over_from_the_object_store(
    tmp_path: Path, kafka_bootstrap: str, object_store: ObjectStore, ports: list[int]
) -> None:
    """All workers are killed with their disks, where the log begins at snapshots: an empty one restores and owns all.

    The snapshots were taken while partitions moved, and the one before it was killed in the middle of its restore.
    What was acknowledged is there once, and what is written from then on.
    """
    topic, url, keys = new_topic(), f"kafka://{kafka_bootstrap}", keys_of(_PARTITIONS)
    names = [f"{{{key}}}list" for key in keys]
    environment = {"URL": object_store.url, "EVENTS": "20", "KEEP": "1", "TRIM_SECONDS": "1"}
    with ExitStack() as stack:
        start = partial(
            GroupedWorker,
            log_url=url,
            topic=topic,
            partitions=_PARTITIONS,
            session_seconds=3,
            variables={f"SLOTLOG_SNAPSHOTS__{name}": value for name, value in environment.items()},
        )
        first = stack.enter_context(start(tmp_path / "0", port=ports[0]))
        writer = Writer(ports, names)
        stack.callback(writer.stop)
        writer.start()
        writer.wait_for_more(20)
        second = stack.enter_context(start(tmp_path / "1", port=ports[1]))
        wait_until(lambda: _owned_by(first, ports[:2]), "the second worker to own")
        before = _begins(url, topic)
        wait_until(lambda: all(now > was for now, was in zip(_begins(url, topic), before, strict=True)), "cuts")
        for worker in (first, second):
            worker.kill()
        for number in (0, 1):
            shutil.rmtree(tmp_path / str(number))
        torn = start(tmp_path / "2", port=ports[2], program=("tests.faults.killed", Step.FETCHED))
        assert -SIGKILL == stack.enter_context(torn).exit_code()
        third = stack.enter_context(start(tmp_path / "2", port=ports[2]))
        third.wait_for("restored")
        wait_until(lambda: _owned_by(third, ports[2:]), "the empty worker to own all")
        writer.wait_for_more(10)
        writer.stop()
        found = lists(ports[2:], names)
        assert 0 == third.terminate()

    assert {} == writer.faults(found)


def _begins(url: str, topic: str) -> list[int]:
    """Where the log of each partition begins."""

    async def asked() -> list[int]:
        async with opened_log(url, topic, _PARTITIONS) as log:
            return [await log.begin_offset(partition) for partition in range(_PARTITIONS)]

    return asyncio.run(asked())
