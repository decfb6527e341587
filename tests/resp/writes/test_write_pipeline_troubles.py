"""Partitions and servers in trouble: who waits is told, nobody waits for ever, and nothing is lost or twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.batch import staging
from engine.errors import CommandError, PartitionStoppedError, StoreBusyError
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from ingest.dead_letters.dead_letter import DeadLetter
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import FAMILIES, PlayedLog, blocked, event, pipeline, replies, serving, until

OK = SimpleString(b"OK")


def slow(log: PlayedLog) -> None:
    """Appends take their time, as Kafka's."""
    log.at_once = False


class BusyStore(MemoryStore):
    """Is behind with its compactions for a few writes after `busy` was set, from the one after `busy_after` on."""

    busy = 0
    busy_after = 0

    def write(self, changes: Changes) -> None:
        """Refuse, or write."""
        if self.busy_after:
            self.busy_after -= 1
        elif self.busy:
            self.busy -= 1
            raise StoreBusyError("behind")
        super().write(changes)


async def test_a_busy_store_is_waited_for(tmp_path: Path) -> None:
    """A store that refuses a batch for a while delays its replies, and changes none of them."""
    store = BusyStore(FAMILIES)
    async with serving(tmp_path, stores={0: store}) as live:
        client = await live.client()
        store.busy = 3
        got = await pipeline(client, "INCR n", "GET n", "INCR n", "GET n")

        assert [1, b"1", 2, b"2"] == got
        assert await live.replayed_digest() == live.digest()


@pytest.mark.parametrize("busy", range(7))
async def test_a_store_that_is_busy_within_a_record_is_waited_for(
    tmp_path: Path, busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise one that refuses what a large collection writes ahead of its batch, after any number of such writes."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    store = BusyStore(FAMILIES)
    async with serving(tmp_path, stores={0: store}) as live:
        client = await live.client()
        await pipeline(client, "SADD s 1 2 3", "SADD t 3 4")
        store.busy_after = busy
        store.busy = 3
        got = await pipeline(client, "INCR n", "SUNIONSTORE d s t", "RENAME s r", "INCR n", "SMEMBERS d", "SCARD r")

        assert [1, 4, OK, 2, {b"1", b"2", b"3", b"4"}, 3] == [set(x) if isinstance(x, list) else x for x in got]
        assert 0 == store.busy
        assert await live.replayed_digest() == live.digest()


class KeptDeadLetters:
    """A dead-letter store in memory."""

    concerns = ()

    def __init__(self) -> None:
        self.kept: list[DeadLetter] = []

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def store(self, letters: Sequence[DeadLetter]) -> None:
        """Keep them."""
        self.kept += letters

    async def read(self, letters_max: int = 1000) -> list[DeadLetter]:
        """All of them."""
        return self.kept

    async def offsets(self, partition: int) -> set[int]:
        """Of all of them."""
        return {letter.offset for letter in self.kept if letter.partition == partition}

    async def watch(self, seconds: float) -> None:
        """It has no settings."""


async def test_an_own_write_that_becomes_a_dead_letter(tmp_path: Path) -> None:
    """A write that the engine cannot take is answered with the reason and kept as a dead letter; the others go on."""
    letters = KeptDeadLetters()
    async with serving(tmp_path, dead_letters=letters) as live:
        client = await live.client()
        write_pipeline = live.server.pipelines[0]
        client.send(["SET", "a", "1"])
        odd = asyncio.create_task(write_pipeline.write(b"SET", [b"a", b"1"], 99))
        client.send(["GET", "a"])
        got = await replies(client, 2)

        reason = "db 99 is out of range, there are 16"
        assert [OK, b"1"] == got
        assert CommandError(f"ERR {reason}").message == (await odd).message
        assert [reason] == [letter.reason for letter in letters.kept]


def stop_at(monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
    """Plant a bug: a record with this argument stops the partition."""
    real = Machine.apply

    def apply(machine: Machine, records: Sequence[Any], *args: Any, **named: Any) -> Any:
        for record in records:
            if value in record[3]:
                machine.rollback()
                raise PartitionStoppedError(record[0], record[2], RuntimeError("a bug"))
        return real(machine, records, *args, **named)

    monkeypatch.setattr(Machine, "apply", apply)


async def test_a_stopped_partition_answers_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was applied before the record that hits a bug is acknowledged, the rest in doubt; new ones are refused."""
    async with serving(tmp_path) as live:
        client = await live.client()
        stop_at(monkeypatch, b"poison")
        got = await pipeline(client, "SET a 1", "SET a poison", "SET a 2", "PING")
        refused = await pipeline(client, "SET a 3", "GET a", "PING")

        doubt = b"UNKNOWNOUTCOME the write is in the log and not applied yet: "
        assert [OK, SimpleString(b"PONG")] == [got[0], got[3]]
        assert [True, True] == [reply.text.startswith(doubt) for reply in got[1:3]]
        assert [True, True] == [reply.text.startswith(b"ERR partition 0 is stopped: ") for reply in refused[:2]]
        assert [True, False] == [reply.text.endswith(b"nothing was written") for reply in refused[:2]]
        assert SimpleString(b"PONG") == refused[2]


async def test_other_partitions_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition that a bug stops takes no other along; when it can go on, it has applied everything once."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        low, high = ("{b}", "{a}")  # slots 3300 and 15495
        with monkeypatch.context() as planted:
            stop_at(planted, b"poison")
            first = await pipeline(client, f"INCR {low}", f"APPEND {low}x poison", f"INCR {high}")
            await until(lambda: str(live.server.pipelines[0].owned.condition) == "stopped")
            second = await pipeline(client, f"INCR {low}", f"INCR {high}")
        await until(lambda: str(live.server.pipelines[0].owned.condition) == "running")
        third = await pipeline(client, f"INCR {low}", f"INCR {high}", f"GET {low}x")

        assert [1, True, 1] == [first[0], first[1].text.startswith(b"UNKNOWNOUTCOME "), first[2]]
        assert [True, 2] == [second[0].text.startswith(b"ERR partition 0 is stopped: "), second[1]]
        assert [2, 3, b"poison"] == third
        assert await live.replayed_digest() == live.digest()


async def test_a_full_disk(tmp_path: Path) -> None:
    """While the guard says no, writes are refused and reads go on; then all goes on by itself."""
    reasons = [""]
    async with serving(tmp_path, guard=lambda: reasons[0]) as live:
        client = await live.client()
        await client.call("SET", "a", "1")
        reasons[0] = "disk full"
        await until(lambda: str(live.server.pipelines[0].owned.condition) == "waiting")
        full = await pipeline(client, "SET a 2", "GET a", "WATCH a", "MULTI", "SET a 3", "EXEC")
        reasons[0] = ""
        await until(lambda: str(live.server.pipelines[0].owned.condition) == "running")

        refused = ErrorReply(b"ERR partition 0 is waiting: disk full; nothing was written")
        aborted = ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")
        assert [refused, b"1", refused, OK, refused, aborted] == full
        assert [OK, b"4"] == await pipeline(client, "SET a 4", "GET a")


async def test_an_append_that_arrives_after_its_partition_was_set_aside(tmp_path: Path) -> None:
    """If it is not next in line it is answered as in doubt: nobody waits for a partition that stands still."""
    reasons = [""]
    async with serving(tmp_path, guard=lambda: reasons[0], prepare=slow) as live:
        client = await live.client()
        live.log.start_gate.clear()
        client.send(["INCR", "n"])
        await until(lambda: live.server.pipelines[0].local_writes.outbox.is_appending)
        live.log.before = lambda: [event("INCR", "n")]
        reasons[0] = "disk full"
        live.server.pipelines[0].owned.retry_seconds = 60
        # The consumer waits for the append under way before it looks at the guard again.
        live.consumer.conditions.set_aside(0, type(live.server.pipelines[0].owned.condition).WAITING, "disk full")
        live.log.start_gate.set()

        text = b"UNKNOWNOUTCOME the write is in the log and not applied yet: disk full"
        assert [ErrorReply(text)] == await replies(client, 1)


async def test_a_partition_that_waits_before_it_has_caught_up(tmp_path: Path) -> None:
    """It answers no reads: whoever owned it before may have acknowledged what it has not applied."""
    reasons = [""]
    async with serving(tmp_path, guard=lambda: reasons[0]) as live:
        await live.ask("SET", "a", "1")
        pipeline, reasons[0] = live.server.pipelines[0], "disk full"
        await until(lambda: "disk full" in pipeline.owned.reason)
        ready_offset = pipeline.ready_offset
        pipeline.ready_offset = pipeline.machine.next_offset + 1
        behind = await live.ask("GET", "a")
        pipeline.ready_offset = ready_offset

        assert (ErrorReply(b"LOADING slotlog is applying its log"), b"1") == (behind, await live.ask("GET", "a"))


async def test_loading_until_the_log_is_applied(tmp_path: Path) -> None:
    """A server that has not yet applied what was in the log at its start answers LOADING; then everything is there."""
    async with serving(tmp_path) as live:
        await live.ask("SET", "a", "1")
        await live.log.append_as_another(*[event("INCR", "n")] * 2500)
    begin = asyncio.Event()
    async with serving(tmp_path, begin=begin) as live:
        client = await live.client()
        write_pipeline = live.server.pipelines[0]
        early = await pipeline(client, "GET n", "INCR n", "PING")
        begin.set()
        await until(lambda: write_pipeline.machine.next_offset == 2501)
        late = await pipeline(client, "GET n", "INCR n", "GET a")

        (served,) = live.server.served
        assert served is not None
        assert served.machine is write_pipeline.machine
    loading = ErrorReply(b"LOADING slotlog is applying its log")
    assert [loading] * 3 == early
    assert [b"2500", 2501, b"1"] == late


async def test_loading_in_a_cluster(tmp_path: Path) -> None:
    """In a cluster commands with keys are answered CLUSTERDOWN meanwhile, which clients try again; others LOADING."""
    async with serving(tmp_path, partitions=2) as live:
        await live.log.append_as_another(*[event("INCR", "b", partitions=2, key=b"b")] * 2500)
    begin = asyncio.Event()
    commands = "GET b", "INCR b", "BLPOP b 1", "WATCH b", "MULTI", "GET b", "PING"
    async with serving(tmp_path, partitions=2, begin=begin) as live:
        client = await live.client()
        early = await pipeline(client, *commands)
        begin.set()
        await until(lambda: live.server.pipelines[0].machine.next_offset == 2500)
        late = await live.ask("GET", "b")

    down = ErrorReply(b"CLUSTERDOWN slotlog is applying its log")
    loading = ErrorReply(b"LOADING slotlog is applying its log")
    assert ([down] * 4, SimpleString(b"OK"), down) == (early[:4], early[4], early[5])
    assert [loading] == early[6:]
    assert b"2500" == late


async def test_the_end_of_a_server_answers_what_is_under_way(tmp_path: Path) -> None:
    """While it drains, accepted writes are acknowledged, new ones are refused, reads go on."""
    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        await other.call("PING")
        live.log.start_gate.clear()
        client.send(["SET", "a", "1"])
        await until(lambda: live.server.pipelines[0].answers.pending_events == 1)
        draining = asyncio.create_task(live.server.drain())
        await asyncio.sleep(0)
        refused = await pipeline(other, "SET a 2", "GET a")
        live.log.start_gate.set()
        await draining

        assert [ErrorReply(b"LOADING slotlog is shutting down; nothing was written"), None] == refused
        assert [OK] == await replies(client, 1)


async def test_the_end_of_a_server_pops_nothing_more(tmp_path: Path) -> None:
    """Who waits for an element when a server ends is told so; one that comes later, from others, stays where it is."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        await live.server.drain()
        told = await replies(client, 1)
        await live.log.append_as_another(event("RPUSH", "q", "x"))
        await until(lambda: live.server.pipelines[0].machine.next_offset == 1)
        still = await pipeline(client, "LRANGE q 0 -1", "BLPOP q 0")

    stopped = ErrorReply(b"LOADING slotlog is shutting down; nothing was written")
    assert [stopped, [b"x"], stopped] == [*told, *still]


async def test_the_end_of_a_server_waits_for_a_pop_under_way(tmp_path: Path) -> None:
    """An element that is being popped when a server ends is given to the client that it was popped for."""
    async with serving(tmp_path, prepare=slow) as live:
        client, pusher = await live.client(), await live.client()
        client.send(["BLPOP", "q", "0"], ["BLPOP", "q", "0"])
        await blocked(live, 1)
        live.log.start_gate.clear()
        await live.log.append_as_another(event("RPUSH", "q", "x"))
        await until(lambda: live.server.pipelines[0].answers.pending_events == 1)
        draining = asyncio.create_task(live.server.drain())
        await asyncio.sleep(0)
        live.log.start_gate.set()
        await draining
        popped = await replies(client, 2)
        left = await pipeline(pusher, "LLEN q")

    stopped = ErrorReply(b"LOADING slotlog is shutting down; nothing was written")
    assert [[b"q", b"x"], stopped, 0] == [*popped, *left]


async def test_the_end_of_a_server_takes_no_more_clients(tmp_path: Path) -> None:
    """A server that drains takes no connection any more; those that it has may still read."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await client.call("SET", "a", "1")
        await live.server.drain()
        with pytest.raises(ConnectionRefusedError):
            await live.client()

        assert b"1" == await client.call("GET", "a")


async def test_the_end_of_a_server_whose_log_does_not_answer(tmp_path: Path) -> None:
    """A write that the log has neither taken nor refused by then is answered as in doubt, and the connection closed."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        live.log.start_gate.clear()
        client.send(["SET", "a", "1"])
        await until(lambda: live.server.pipelines[0].local_writes.outbox.is_appending)
        client.send(["SET", "a", "2"])
        await until(lambda: live.server.pipelines[0].answers.pending_events == 2)
        await live.server.close()
        got = await replies(client, 2)
        with pytest.raises(ConnectionError):
            await client.reply()

    assert [
        ErrorReply(b"UNKNOWNOUTCOME the write may have happened, or may yet happen: slotlog is shutting down"),
        ErrorReply(b"LOADING slotlog is shutting down; nothing was written"),
    ] == got


async def test_a_damaged_read_ends_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in one command is that client's error, pipelined behind a write or not; nobody else notices."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        plan = live.server.plans.by_name[b"STRLEN"]

        def broken(*_: Any) -> Any:
            raise TypeError("a bug")

        assert plan.spec is not None
        monkeypatch.setattr(plan, "spec", replace(plan.spec, handler=broken))
        alone = await pipeline(client, "STRLEN a", "PING")
        behind = await pipeline(client, "SET a 1", "STRLEN a", "GET a")

        internal = ErrorReply(b"ERR internal error: see the log of slotlog")
        assert [internal, SimpleString(b"PONG")] == alone
        assert [OK, internal, b"1"] == behind
        assert "running" == str(live.server.pipelines[0].owned.condition)
        assert b"1" == await other.call("GET", "a")
