"""Workers of a group that come, go and die: partitions move, and nothing is lost or applied twice."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.faults.grouped import Counting, GroupedWorker, connect, keys_of
from tests.faults.workers import new_topic
from tests.ops.verbs import succeed, wait_until
from tests.real.process import free_ports

_PARTITIONS = 4


def _digests(data: Path, own: list[int]) -> dict[int, tuple[str, int]]:
    """Digest and position of some partitions."""
    found = json.loads(succeed("digest", "--data", data, "--own", ",".join(map(str, own)), "--json"))
    return {each["partition"]: (each["digest"], each["next_offset"]) for each in found["partitions"]}


def _halves(worker: GroupedWorker, ports: list[int]) -> bool:
    owners = worker.owners()
    return [0, 8192] == [*owners] and {*ports} == {*owners.values()}


def _is_taken(client: redis.Redis, key: str) -> bool:
    try:
        return bool(client.set(key, "new"))
    except redis.ResponseError:
        return False


@pytest.mark.timeout(240)
def test_one_two_three_workers_and_a_kill(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Three workers join while clients write, one is killed, one is stopped: each acknowledged write is there once.

    What is left owns all, with the digests of a replay of the whole log.
    """
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(3)
    counting = Counting(ports, keys_of(_PARTITIONS))
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=_PARTITIONS, session_seconds=4, standbys=1)
        first = stack.enter_context(start(tmp_path / "0", port=ports[0]))
        first.wait_for("started")
        counting.start()
        stack.callback(counting.stop)
        counting.wait_for_more(5)
        second = stack.enter_context(start(tmp_path / "1", port=ports[1]))
        wait_until(lambda: ports[1] in first.owners().values(), "the second worker to own")
        third = stack.enter_context(start(tmp_path / "2", port=ports[2]))
        wait_until(lambda: {*ports} == {*first.owners().values()}, "the third worker to own")
        counting.wait_for_more(5)
        second.kill()
        wait_until(
            lambda: {ports[0], ports[2]} == {*first.owners().values()}, "the dead worker's partitions to be taken"
        )
        counting.wait_for_more(5)
        assert 0 == first.terminate()
        counting.wait_for_more(5)
        wait_until(lambda: {ports[2]} == {*third.owners().values()}, "the last worker to own all")
        counting.stop()
        values = {key: counting.read(key) for key in counting.acknowledged}
        assert 0 == third.terminate()

    for key, value in values.items():
        assert counting.acknowledged[key] <= value <= counting.acknowledged[key] + counting.doubtful[key], key
    replayed, own = tmp_path / "replayed", list(range(_PARTITIONS))
    succeed("replay", "--to", replayed, "--data", tmp_path / "none", "--log", url, "--topic", topic, "--partitions", 4)
    assert _digests(replayed, own) == _digests(tmp_path / "2", own)


@pytest.mark.timeout(240)
def test_a_paused_worker_serves_nothing_old(tmp_path: Path, kafka_bootstrap: str) -> None:
    """A read that waits at a worker which stood still past its session is refused: another one has written since."""
    topic, url, ports = new_topic(), f"kafka://{kafka_bootstrap}", free_ports(2)
    with ExitStack() as stack:
        start = partial(GroupedWorker, log_url=url, topic=topic, partitions=2, session_seconds=3)
        first = stack.enter_context(start(tmp_path / "0", port=ports[0]))
        second = stack.enter_context(start(tmp_path / "1", port=ports[1]))
        wait_until(lambda: {*ports} == {*first.owners().values()}, "both to own")
        key = next(each for each in keys_of(2) if Counting(ports, [each]).finds(each) == ports[0])
        client, other = connect(ports[0]), connect(ports[1])
        stack.callback(client.close)
        stack.callback(other.close)
        client.set(key, "old")
        first.pause()
        stack.callback(first.go_on)
        wait_until(lambda: {ports[1]} == {*second.owners().values()}, "the other worker to own all")
        wait_until(lambda: _is_taken(other, key), "the other worker to write")
        connection = client.connection_pool.get_connection()
        connection.send_command("GET", key)  # type: ignore[no-untyped-call]  # it waits in the socket
        first.go_on()
        with pytest.raises((redis.exceptions.ClusterDownError, redis.exceptions.MovedError)):
            connection.read_response()
        connection.disconnect()  # type: ignore[no-untyped-call]


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
