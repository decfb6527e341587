"""Workers of one topic that are killed: what the others say, and messages among those that are there."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from pathlib import Path

from tests.faults.workers import running_workers
from tests.ops.verbs import wait_until


def test_twelve_messages_of_twelve(tmp_path: Path) -> None:
    """Of twelve messages, four published at each of three workers, a subscriber at each hears all twelve."""
    with running_workers(tmp_path, 3) as workers, ExitStack() as stack:
        listeners = [stack.enter_context(closing(worker.connect())) for worker in workers]
        for listener in listeners:
            listener.call("SUBSCRIBE", "news")
        for number in range(4):
            for who, worker in enumerate(workers):
                assert 1 == worker.call("PUBLISH", "news", f"{who}-{number}")
        heard = [sorted(listener.reply()[2] for _ in range(12)) for listener in listeners]
        lost = [worker.metric("slotlog_peer_messages_lost_total", 'reason="unreachable"') for worker in workers]

    assert [[f"{who}-{number}".encode() for who in range(3) for number in range(4)]] * 3 == heard
    assert [0, 0, 0] == lost


def test_a_killed_worker_is_told_of(tmp_path: Path) -> None:
    """With one of two workers killed the other says so in CLUSTER INFO, NODES and SHARDS and in its metrics."""
    with running_workers(tmp_path, 2) as (first, second):
        before = first.info()
        second.kill()
        wait_until(lambda: first.info()["cluster_slots_fail"] == "8192", "the other one to have failed")
        after = first.info()
        line = first.call("CLUSTER", "NODES").decode().splitlines()[1]
        health = [shard[3][0][-1] for shard in first.call("CLUSTER", "SHARDS")]
        written = first.call("SET", "b", "1")
        failed = first.metric("slotlog_peers", 'health="failed"')
        second.start()
        wait_until(lambda: first.info()["cluster_state"] == "ok", "it to be back")

    names = "cluster_state", "cluster_slots_ok", "cluster_slots_pfail", "cluster_slots_fail"
    assert ["ok", "16384", "0", "0"] == [before[name] for name in names]
    assert ["fail", "8192", "0", "8192"] == [after[name] for name in names]
    assert re.search(r" master,fail - \d+ \d+ 0 disconnected 8192-16383$", line)
    assert [b"online", b"fail"] == health
    assert (b"OK", 1) == (written.text, failed)


def test_messages_for_a_killed_worker_are_counted(tmp_path: Path) -> None:
    """Messages go on to the workers that are there; those that a killed one misses are counted."""
    with running_workers(tmp_path, 3) as (first, second, third):
        third.kill()
        wait_until(lambda: first.metric("slotlog_peers", 'health="failed"') == 1, "it to have failed")
        with closing(second.connect()) as listener:
            listener.call("SUBSCRIBE", "news")
            for number in range(5):
                first.call("PUBLISH", "news", str(number))
            heard = [listener.reply()[2] for _ in range(5)]
        wait_until(
            lambda: first.metric("slotlog_peer_messages_lost_total", 'reason="unreachable"') == 5, "five to be lost"
        )

    assert [b"0", b"1", b"2", b"3", b"4"] == heard
