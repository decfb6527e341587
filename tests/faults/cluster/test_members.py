"""Workers on three brokers that stand still, leave and die: each write counts once, and none speaks too late."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, closing, suppress
from typing import Final

import pytest
import redis
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from ingest.dead_letters.stores import open_dead_letters
from slotlog.log import Entry
from tests.faults.grouped import connect
from tests.faults.logs import opened_log
from tests.faults.rig import LARGE, PARTITIONS, Rig
from tests.ops.verbs import wait_until

_CHANGES: Final = 50 if LARGE else 2
_DEPTH: Final = 20 if LARGE else 1


@pytest.mark.timeout(300)
def test_a_paused_worker_says_nothing_as_owner(rig: Rig) -> None:
    """A worker that stood still past its session answers no read with what is old, and sends no dead letter again.

    It may take its partition back before the read has waited for long: then it answers what was written elsewhere.
    """
    key = rig.keys[0]
    wait_until(lambda: _is_written(rig, key, "old"), "the key to be written")
    number = rig.owner_of(key)
    with ExitStack() as stack:
        client = stack.enter_context(closing(connect(rig.ports[number])))
        client.set(key, "old")
        worker = rig.workers.pop(number)
        worker.pause()
        stack.callback(worker.go_on)
        wait_until(lambda: rig.ports[number] not in rig.owners().values(), "another worker to own")
        connection = client.connection_pool.get_connection()
        connection.send_command("GET", key)  # type: ignore[no-untyped-call]  # it waits in the socket
        with rig.writing("zombie"):
            wait_until(lambda: _is_written(rig, key, "new"), "the key to be written elsewhere")
            broken = asyncio.run(_append_broken(rig))
        worker.go_on()
        rig.workers[number] = worker
        with suppress(redis.exceptions.ClusterDownError, redis.exceptions.MovedError):
            assert b"new" == connection.read_response()
        connection.disconnect()  # type: ignore[no-untyped-call]
    rig.wait_until_shared()
    letters = asyncio.run(_dead_letters(rig))
    assert [broken] == [offset for partition, offset in letters if partition == 0]
    rig.compare()


def _is_written(rig: Rig, key: str, value: str) -> bool:
    for port in rig.running_ports:
        with closing(connect(port)) as client:
            try:
                return bool(client.set(key, value))
            except redis.RedisError:
                continue
    return False


async def _append_broken(rig: Rig) -> int:
    """Append a record that is no event to partition 0, and wait until it is a dead letter; its offset.

    And until its owner has told the group so: who takes the partition before that sends the letter again.
    """
    async with opened_log(f"kafka://{rig.cluster.bootstrap}", rig.topic, PARTITIONS) as log:
        (position,) = await log.append([Entry(0, None, b"broken")])
        dead_letters = open_dead_letters(log)
        await dead_letters.start()
        while not await dead_letters.read():  # noqa: ASYNC110 - another process sends it
            await asyncio.sleep(0.05)
        await dead_letters.close()
    admin = AIOKafkaAdminClient(bootstrap_servers=rig.cluster.bootstrap)
    await admin.start()
    told = TopicPartition(rig.topic, 0)
    while (await admin.list_consumer_group_offsets(rig.group))[told].offset <= position.offset:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await admin.close()
    return position.offset


async def _dead_letters(rig: Rig) -> list[tuple[int, int]]:
    """Partition and offset of every dead letter that was sent, those sent twice too."""
    async with opened_log(f"kafka://{rig.cluster.bootstrap}", rig.topic, PARTITIONS) as log:
        dead_letters = open_dead_letters(log)
        await dead_letters.start()
        found = [(letter.partition, letter.offset) for letter in await dead_letters.read()]
        await dead_letters.close()
    return found


@pytest.mark.timeout(600)
def test_workers_come_and_go(rig: Rig) -> None:
    """Workers leave and come back one after the other, one of five by SIGKILL: nothing is lost, or there twice."""
    choose = random.Random(1)
    with rig.writing("come and go", depth=_DEPTH):
        for change in range(_CHANGES):
            number = choose.choice(sorted(rig.workers))
            if change % 5 == 1:
                rig.kill(number)
            else:
                assert 0 == rig.workers.pop(number).terminate()
            rig.start(number).wait_for("started")
    rig.wait_until_shared()
    rig.compare()
