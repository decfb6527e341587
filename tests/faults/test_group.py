"""Workers of a group that come, go and die: partitions move, and nothing is lost or applied twice."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.grouped import Counting, GroupedWorker, keys_of
from tests.faults.ledger import Writer, lists
from tests.faults.workers import new_topic
from tests.ops.verbs import succeed, wait_until
from tests.real.process import free_ports

_PARTITIONS = 4
_EVENTS = int(os.environ.get("GROUP_EVENTS", "100"))
_BOUNCES = int(os.environ.get("GROUP_BOUNCES", "1"))


def _digests(data: Path, own: list[int]) -> dict[int, tuple[str, int]]:
    """Digest and position of some partitions."""
    found = json.loads(succeed("digest", "--data", data, "--own", ",".join(map(str, own)), "--json"))
    return {each["partition"]: (each["digest"], each["next_offset"]) for each in found["partitions"]}


def _halves(worker: GroupedWorker, ports: list[int]) -> bool:
    owners = worker.owners()
    return [0, 8192] == [*owners] and {*ports} == {*owners.values()}


@pytest.mark.timeout(240)
def test_one_two_three_workers_and_kills(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Three workers join while a client writes, some are killed, one is stopped: each acknowledged write is there once.

    What is left owns all, with the digests of a replay of the whole log.
    """
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(3)
    names = [f"{{{key}}}list" for key in keys_of(_PARTITIONS)]
    writer = Writer(ports, names, depth=50 if _EVENTS > 1000 else 1)
    more = _EVENTS // len(names) // (2 * _BOUNCES + 3)
    with ExitStack() as stack:

        def start(number: int) -> GroupedWorker:
            data, port = tmp_path / str(number), ports[number]
            worker = GroupedWorker(data, url, topic, port, _PARTITIONS, session_seconds=4, standbys=1)
            return stack.enter_context(worker)

        def wait_for_owners(*numbers: int) -> None:
            wanted = {ports[number] for number in numbers}
            wait_until(lambda: wanted == {*workers[numbers[0]].owners().values()}, f"{numbers} to own all")
            writer.wait_for_more(more)

        workers = [start(0)]
        workers[0].wait_for("started")
        writer.start()
        stack.callback(writer.stop)
        writer.wait_for_more(more)
        for number in (1, 2):
            workers.append(start(number))
            wait_for_owners(*range(number + 1))
        for bounce in range(_BOUNCES):
            killed = (bounce + 1) % 3
            workers[killed].kill()
            wait_for_owners(*(number for number in range(3) if number != killed))
            if bounce < _BOUNCES - 1:
                workers[killed] = start(killed)
                wait_for_owners(*range(3))
        first, last = (number for number in range(3) if number != killed)
        assert 0 == workers[first].terminate()
        wait_for_owners(last)
        writer.stop()
        found = lists(ports[last:], names)
        assert 0 == workers[last].terminate()

    assert {} == writer.faults(found)
    assert len(names) * more <= writer.acknowledged
    replayed, own = tmp_path / "replayed", list(range(_PARTITIONS))
    succeed("replay", "--to", replayed, "--data", tmp_path / "none", "--log", url, "--topic", topic, "--partitions", 4)
    assert _digests(replayed, own) == _digests(tmp_path / str(last), own)


@pytest.mark.timeout(240)
def test_a_rolling_restart_moves_nothing(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Two workers with names of their own are restarted one after the other: each owns afterwards what it owned."""
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(2)
    counting = Counting(ports, keys_of(_PARTITIONS))

    def start(number: int) -> GroupedWorker:
        return GroupedWorker(
            tmp_path / str(number),
            url,
            topic,
            ports[number],
            _PARTITIONS,
            session_seconds=60,
            instance=f"worker-{number}",
        )

    with ExitStack() as stack:
        workers = [stack.enter_context(start(0)), stack.enter_context(start(1))]
        wait_until(lambda: _halves(workers[0], ports), "each to own a half")
        counting.start()
        stack.callback(counting.stop)
        counting.wait_for_more(3)
        before = workers[0].owners()
        for number in (0, 1):
            assert 0 == workers[number].terminate()
            workers[number] = stack.enter_context(start(number))
            workers[number].wait_for("group_plan")
            counting.wait_for_more(3)
            assert before == workers[number].owners()
        counting.stop()
        assert {**dict.fromkeys(counting.acknowledged)} == dict.fromkeys(
            key for key, count in counting.acknowledged.items() if counting.read(key) >= count
        )
        rebalanced = [line for worker in workers for line in worker.said() if line.get("event") == "group_plan"]
    assert 2 == len(rebalanced)


@pytest.mark.timeout(240)
def test_services_of_two_topics_in_one_group(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Each service owns all of its own topic, and is ready, whichever of them leads the group."""
    topics, ports, pages = (new_topic(), new_topic()), free_ports(2), free_ports(2)

    def start(number: int) -> GroupedWorker:
        worker = GroupedWorker(
            tmp_path / str(number),
            f"kafka://{kafka_bootstrap}",
            topics[number],
            ports[number],
            (_PARTITIONS, 2)[number],
            session_seconds=4,
            http=f"127.0.0.1:{pages[number]}",
            group=f"{topics[0]}-both",
        )
        return stack.enter_context(worker)

    def wait_for(workers: list[GroupedWorker], plans: int) -> None:
        for worker in workers:
            for _ in range(plans):
                worker.wait_for("group_plan")
        wait_until(lambda: all(worker.is_ready() for worker in workers), "each service to be ready")
        assert [{0: worker.port} for worker in workers] == [worker.owners() for worker in workers]

    with ExitStack() as stack:
        workers = [start(0)]
        wait_for(workers, plans=1)
        workers.append(start(1))
        wait_for(workers, plans=1)
        assert 0 == workers[0].terminate()
        wait_for(workers[1:], plans=1)
        workers[0] = start(0)
        wait_for(workers, plans=1)
        assert [0, 0] == [worker.terminate() for worker in workers]
