"""Writes are applied once and answered in order, and a failure gives a clear error."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingest.applying.local_appends import apply_fetched
from resp.writes import groups, local_writes
from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.log import Entry, LogRecord, RecordPosition
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import PlayedLog, event, pipeline, replies, serving, until
from tests.wire.client import Client

OK = SimpleString(b"OK")
AWAY = LogUnavailableError("the log is away")
NOTHING = ErrorReply(b"ERR nothing was written: the log is away")
DOUBT = ErrorReply(b"UNKNOWNOUTCOME the write may have happened, or may yet happen: in doubt")


def plain(log: PlayedLog) -> None:
    """Nothing happens."""


def slow(log: PlayedLog) -> None:
    """Appends take their time, as Kafka's."""
    log.at_once = False


def foreign_before(log: PlayedLog) -> None:
    """Somebody else is always a bit quicker."""
    log.before = lambda: [event("INCR", "foreign")]


def foreign_between(log: PlayedLog) -> None:
    """Somebody else appends between any two of our records."""
    log.between = lambda: [event("INCR", "foreign")]


def foreign_garbage(log: PlayedLog) -> None:
    """What somebody else appends between our records are dead letters."""
    log.between = lambda: [Entry(0, None, b"garbage")]


def repeating(log: PlayedLog) -> None:
    """The reader gives our own records again, in the middle of others'."""
    log.repeats = True
    log.between = lambda: [event("INCR", "foreign")]


PLAYS = (plain, slow, foreign_before, foreign_between, foreign_garbage, repeating)


async def test_a_write_is_a_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to the log has every field of a record, on the short way of a write too: Kafka's log asks for all."""
    sent: list[Entry] = []
    monkeypatch.setattr(PlayedLog, "_count", lambda _, entries: sent.extend(entries))

    async with serving(tmp_path) as live:
        await pipeline(await live.client(), "SET a 1", "MULTI", "SET a 2", "EXEC", "DEL a b", "FLUSHALL")

    assert [Entry(entry[0], entry[1], entry[2]) for entry in sent] == sent
    assert 4 == len(sent)


@pytest.mark.parametrize("play", PLAYS)
async def test_reads_see_the_writes_before_them_and_no_later_ones(
    tmp_path: Path, play: Callable[[PlayedLog], None]
) -> None:
    """In one pipeline a read gives what the write before it made, however many writes stand behind it."""
    async with serving(tmp_path, prepare=play) as live:
        client = await live.client()
        got = await pipeline(client, "SET a 1", "GET a", "SET a 2", "GET b", "APPEND a x", "GET a", "DEL a", "GET a")

    assert [OK, b"1", OK, None, 2, b"2x", 1, None] == got


@pytest.mark.parametrize("play", PLAYS)
async def test_own_writes_are_applied_once(tmp_path: Path, play: Callable[[PlayedLog], None]) -> None:
    """Counters that many clients raise end where their replies say, and a replay of the log comes to the same state."""
    async with serving(tmp_path, prepare=play) as live:
        clients = [await live.client() for _ in range(5)]
        for _ in range(4):
            for client in clients:
                client.send(*[["INCR", "n"]] * 10)
            await live.log.append_as_another(event("INCR", "n"))
        got = [await replies(client, 40) for client in clients]
        await until(lambda: len(live.server.pipelines[0].local_writes._durable) == 0)
        replayed = await live.replayed_digest()
        total = await live.ask("GET", "n")

        assert b"204" == total
        assert replayed == live.digest()
    assert all(sorted(numbers) == numbers for numbers in got)
    assert 200 == len({number for numbers in got for number in numbers})


async def test_a_fetch_that_has_our_records_before_the_append_answered(tmp_path: Path) -> None:
    """Records that the consumer reads while their append is under way are applied once, and answered."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        live.log.end_gate.clear()
        client.send(["INCR", "n"], ["INCR", "n"])
        await until(lambda: live.log.entries == 2)
        await live.log.append_as_another(event("INCR", "n"))
        await until(lambda: live.log.given >= 2)
        live.log.end_gate.set()
        got = await replies(client, 2)
        replayed = await live.replayed_digest()

        assert [1, 2] == got
        assert b"3" == await client.call("GET", "n")
        assert replayed == live.digest()


async def test_a_fetch_that_has_our_records_and_others_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others' records are applied also where ours before them are applied in several turns of the event loop."""
    for module in (groups, local_writes):
        monkeypatch.setattr(module, "PART_SECONDS", -1.0)
    async with serving(tmp_path, prepare=slow) as live:

        async def append_with_others(entries: Sequence[Entry]) -> list[RecordPosition]:
            positions = await EmbeddedLog.append(live.log, [*entries, event("INCR", "n")])
            await until(lambda: live.log.given > positions[-1].offset)
            return positions[:-1]

        monkeypatch.setattr(live.log, "append", append_with_others)
        client = await live.client()
        got = await pipeline(client, "INCR n", "GET n", "INCR n", "GET n", "INCR n")
        got += await pipeline(client, "INCR n")
        monkeypatch.undo()
        got += await pipeline(client, "INCR n")
        replayed = await live.replayed_digest()

        assert [1, b"1", 2, b"2", 3, 5, 7] == got
        assert replayed == live.digest()


async def test_what_makes_room_above_a_fetch_does_not_keep_the_consumer(tmp_path: Path) -> None:
    """Else nothing of other partitions was applied for as long as clients of one send enough."""
    async with serving(tmp_path) as live:
        assert 1 == await live.ask("INCR", "n")
        owned, writes = live.consumer.partitions[0], live.server.pipelines[0].local_writes
        writes._going_on = True

        async with asyncio.timeout(2):
            await apply_fetched(owned, writes, [], 1, lambda _: ())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await apply_fetched(owned, writes, [], 2, lambda _: ())
        writes._going_on = False


async def test_a_fetch_is_let_go_as_it_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the worker has to apply is held by it alone, and what stands behind own writes is still there."""
    async with serving(tmp_path) as live:
        assert 1 == await live.ask("INCR", "n")
        owned, writes = live.consumer.partitions[0], live.server.pipelines[0].local_writes
        records: list[LogRecord] = [(1, 1, None, b""), (2, 1, None, b"")]
        given: list[int] = []

        async def apply(mine: list[LogRecord], *_: object) -> None:
            given.extend(offset for offset, *_ in mine)
            raise AWAY

        with monkeypatch.context() as patched:
            patched.setattr(owned.worker, "apply", apply)
            with pytest.raises(LogUnavailableError):
                await apply_fetched(owned, writes, records, 2, lambda _: ())

    assert ([1], [(2, 1, None, b"")]) == (given, records)


async def test_writes_fail_clearly_while_the_log_is_away(tmp_path: Path) -> None:
    """Each pipelined write says that nothing was written, reads between them go on, and later all is well again."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await client.call("SET", "a", "old")
        live.log.failure = AWAY
        failed = await pipeline(client, "SET a 1", "GET a", "INCR n", "GET n")
        live.log.failure = None
        later = await pipeline(client, "GET a", "INCR n")

    assert [NOTHING, b"old", NOTHING, None] == failed
    assert [b"old", 1] == later


async def test_nothing_overtakes_a_write_that_failed(tmp_path: Path) -> None:
    """What was sent while an append was under way that fails, fails as well: it stood behind that one."""
    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        live.log.start_gate.clear()
        live.log.failure = AWAY
        client.send(["SET", "a", "1"])
        await until(lambda: live.server.pipelines[0].local_writes.outbox.is_appending)
        client.send(["SET", "a", "2"], ["GET", "a"])
        other.send(["SET", "b", "2"])
        await until(lambda: live.server.pipelines[0].answers.pending_events == 4)
        live.log.start_gate.set()
        got = [await replies(client, 3), await replies(other, 1)]
        live.log.failure = None

        assert [[NOTHING, NOTHING, None], [NOTHING]] == got
        assert [OK, b"3"] == await pipeline(client, "SET a 3", "GET a")
        assert 1 == await live.log.end_offset(0)


async def test_an_append_in_doubt_is_applied_once(tmp_path: Path) -> None:
    """UNKNOWNOUTCOME for each write; what is in the log all the same is applied once, by whoever reads it."""
    async with serving(tmp_path) as live:
        client = await live.client()
        live.log.uncertain = AppendUncertainError("in doubt")
        got = await pipeline(client, "INCR n", "INCR n")
        live.log.uncertain = None
        owned = live.consumer.partitions[0]
        await until(lambda: owned.worker.is_open and owned.worker.machine.next_offset == 2)

        assert [DOUBT, DOUBT] == got
        assert 3 == await client.call("INCR", "n")
        assert await live.replayed_digest() == live.digest()


async def test_a_bug_in_an_append(tmp_path: Path) -> None:
    """Nobody can say whether an append that failed in an unknown way has happened: so that is what is said."""
    async with serving(tmp_path) as live:
        client = await live.client()
        live.log.failure = TypeError("a bug")
        got = await pipeline(client, "SET a 1", "GET a")
        live.log.failure = None

        doubt = ErrorReply(b"UNKNOWNOUTCOME the write may have happened, or may yet happen: a bug")
        assert [doubt, None] == got
        assert OK == await client.call("SET", "a", "2")


async def test_a_read_behind_an_unapplied_write_waits_for_it_when_the_next_append_fails(tmp_path: Path) -> None:
    """A failed append answers its writes; a read in it that stands behind a durable write still sees that write."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        write_pipeline = live.server.pipelines[0]
        local_writes = write_pipeline.local_writes
        live.log.fetch_gate.clear()
        local_writes.hold()  # as while the consumer applies what stands before ours
        client.send(["SET", "a", "1"])
        await until(lambda: len(local_writes._durable) == 1)
        live.log.failure = AWAY
        client.send(["SET", "a", "2"], ["GET", "a"])
        await until(lambda: write_pipeline.answers.pending_events == 2 and not local_writes.outbox.is_appending)
        local_writes.release()
        live.log.fetch_gate.set()

        assert [OK, NOTHING, b"1"] == await replies(client, 3)


async def test_a_fetch_is_not_given_up_for_own_writes_that_are_left(tmp_path: Path) -> None:
    """The partition stops, which never happens, and reads again from there on: nothing is passed over."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        local_writes = live.server.pipelines[0].local_writes
        local_writes.hold()  # by nobody who will apply anything
        client.send(["INCR", "n"])
        (reply,) = await replies(client, 1)
        local_writes.release()
        await live.log.append_as_another(event("INCR", "n"))

        assert "own writes from offset 0 on are left" in str(reply)
        owned = live.consumer.partitions[0]
        await until(lambda: owned.worker.is_open and owned.worker.machine.next_offset == 2)
        assert await live.replayed_digest() == live.digest()


class Counter:
    """A client that raises a counter of its own, and holds each reply against what may have happened by then."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.lowest = 0
        self.doubts = 0
        self.wrong: list[Any] = []

    async def run(self, client: Client, rounds: int) -> None:
        """So many pipelines, one after the other."""
        for _ in range(rounds):
            for at, reply in enumerate(await pipeline(client, *[f"INCR {self.key}", f"GET {self.key}"] * 3)):
                self._take(reply, is_write=at % 2 == 0)

    def _take(self, reply: Any, *, is_write: bool) -> None:
        if isinstance(reply, ErrorReply) and is_write:
            self.doubts += reply.text.startswith(b"UNKNOWNOUTCOME ")
            if not reply.text.startswith((b"UNKNOWNOUTCOME ", b"ERR nothing was written: ")):
                self.wrong.append(reply)
            return
        value = int(reply or 0)
        least = self.lowest + is_write
        if not least <= value <= least + self.doubts:
            self.wrong.append((reply, self.lowest, self.doubts))
        self.doubts -= max(0, value - least)
        self.lowest = value


async def trouble(log: PlayedLog, source: random.Random) -> None:
    """Let anything happen to the log, and another thing soon after."""
    while True:
        log.at_once = source.random() < 0.5
        log.failure = AWAY if source.random() < 0.15 else None
        log.uncertain = AppendUncertainError("in doubt") if source.random() < 0.15 else None
        foreign = [event("INCR", "foreign")] * source.randrange(3)
        log.before = (lambda: foreign) if source.random() < 0.3 else None  # noqa: B023 - they are all alike
        log.between = (lambda: foreign) if source.random() < 0.3 else None  # noqa: B023
        for gate in (log.start_gate, log.end_gate):
            (gate.clear if source.random() < 0.2 else gate.set)()
        await asyncio.sleep(source.random() * 0.01)


@pytest.mark.parametrize("seed", range(4))
async def test_any_mix_of_troubles(tmp_path: Path, seed: int) -> None:
    """Appends that are quick, slow, refused or in doubt, with others' between: no reply is wrong, nothing is twice.

    A counter ends at the number of its events in the log, acknowledged or not.
    """
    counters = [Counter(f"n{number}") for number in range(5)]
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in counters]
        troubling = asyncio.create_task(trouble(live.log, random.Random(seed)))
        await asyncio.gather(*[counter.run(client, 25) for counter, client in zip(counters, clients, strict=True)])
        troubling.cancel()
        replayed = await live.replayed_digest()
        there = [int(await live.ask("GET", counter.key) or 0) for counter in counters]
        events = [args[0].decode() for _, args in await live.events()]

        assert [[]] * len(counters) == [counter.wrong for counter in counters]
        assert [events.count(counter.key) for counter in counters] == there
        assert replayed == live.digest()


async def test_a_pipeline_of_more_than_one_group(tmp_path: Path) -> None:
    """More writes in one go than an append takes: several appends, all replies, in order."""
    count = 2500
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(*[["INCR", "n"]] * count)

        assert list(range(1, count + 1)) == await replies(client, count)
        assert 3 <= live.log.appends
        assert (0, 0) == (
            live.server.pipelines[0].answers.pending_events,
            live.server.pipelines[0].answers.pending_bytes,
        )
