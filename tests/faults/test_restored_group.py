"""Workers of a group that share Kafka and an S3 store alone: one takes over from another without its disk."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.faults.grouped import Counting, GroupedWorker, keys_of
from tests.faults.logs import opened_log
from tests.faults.workers import new_topic
from tests.ops.verbs import wait_until
from tests.real.object_store import ObjectStore
from tests.real.process import free_ports

_PARTITIONS = 2


async def begins(url: str, topic: str) -> list[int]:
    """Where each partition of the log begins."""
    async with opened_log(url, topic, _PARTITIONS) as log:
        return [await log.begin_offset(partition) for partition in range(_PARTITIONS)]


def restored(worker: GroupedWorker) -> dict[int, int]:
    """By partition: the positions of the snapshots from which a worker has restored."""
    return {line["partition"]: line["next_offset"] for line in worker.said() if line.get("event") == "restored"}


@pytest.mark.timeout(240)
async def test_a_worker_is_lost_with_its_disk(kafka_bootstrap: str, object_store: ObjectStore, tmp_path: Path) -> None:
    """Clients write while both take snapshots and cut the log behind them, until one is killed and its disk is gone.

    The other restores its partitions, whose log does not begin at 0 any more, serves them, and takes their snapshots.
    Each write that was acknowledged is there once.
    """
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(2)
    variables = {"URL": f"{object_store.url}/{topic}", "EVENTS": "100", "TRIM_SECONDS": "3", "KEEP": "1"}
    snapshots = {f"SLOTLOG_SNAPSHOTS__{name}": value for name, value in variables.items()}
    counting = Counting(ports, keys_of(_PARTITIONS))
    with ExitStack() as stack:
        start = partial(
            GroupedWorker,
            log_url=url,
            topic=topic,
            partitions=_PARTITIONS,
            session_seconds=4,
            variables=snapshots,
        )
        workers = [stack.enter_context(start(tmp_path / str(number), port=port)) for number, port in enumerate(ports)]
        wait_until(lambda: {*ports} == {*workers[0].owners().values()}, "both to own")
        counting.start()
        stack.callback(counting.stop)
        while not all(await begins(url, topic)):
            counting.wait_for_more(5)
        lost, other = workers
        lost.kill()
        shutil.rmtree(lost.data)
        wait_until(lambda: {ports[1]} == {*other.owners().values()}, "the other worker to own all")
        counting.wait_for_more(30)
        counting.stop()
        values = {key: counting.read(key) for key in counting.acknowledged}
        back = restored(other)
        wait_until(
            lambda: {*back} <= {line["partition"] for line in other.said() if line.get("event") == "snapshot_taken"},
            "snapshots of what was restored",
        )
        assert 0 == other.terminate()

    assert len(back) >= 1
    assert [True] * len(back) == [offset > 0 for offset in back.values()]
    for key, value in values.items():
        assert counting.acknowledged[key] <= value <= counting.acknowledged[key] + counting.doubtful[key], key
