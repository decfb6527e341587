"""Takes the writes of this process in one owned partition to the log and into the state.

    outbox -> log.append -> durable -> machine.apply, in memory -> commit -> answers -> RocksDB

What is durable is applied from memory, not read back, as soon as it is next in line; records of others that stand
before it are the consumer's, which calls `release` when it has applied them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import structlog
from greenlet import GreenletExit

from engine.apply.machine import Machine
from engine.apply.records import Applied
from engine.errors import CommandError, PartitionStoppedError, StoreBusyError
from ingest.applying.batches.commit_path import CommitPath
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition
from resp.writes.answers import Answers
from resp.writes.groups import PART_SECONDS, UnusualError, apply_group, outcome
from resp.writes.items import NOTHING_WRITTEN, Group, Item, Replies, log_record, without_gaps
from resp.writes.outbox import Outbox
from resp.writes.outboxes import Outboxes
from resp.writes.stopping import CLOSED, in_the_log
from resp.writes.wakeup import Wakeup
from resp.writes.written_behind import WrittenBehind
from slotlog.errors import LogUnavailableError, appended_nothing
from slotlog.log import RecordPosition
from slotlog.shared.errors import InvariantError

logger = structlog.get_logger(__name__)


class LocalWrites:
    """Implements `ingest.applying.partitions.owned_partition.LocalAppends`.

    Args:
        owned: the partition's worker, and how it is.
        outboxes: send writes to the log.
        answers: to whom replies go.
        read_refusal: why no read can be taken now; None when it can.

    Attributes:
        outbox: takes what is to be appended, and reads that stand behind it.
        behind: commits them, and writes to RocksDB what it lacks.
    """

    def __init__(
        self,
        owned: OwnedPartition,
        outboxes: Outboxes,
        answers: Answers,
        read_refusal: Callable[[], CommandError | None],
    ) -> None:
        self.outbox = Outbox(outboxes, self._arrived, self._append_failed)
        self.behind = WrittenBehind(owned, self._fail_behind)
        self._owned, self._answers = owned, answers
        self._partition = owned.worker.partition
        self._read_refusal = read_refusal
        self._durable: deque[Group] = deque()
        self._busy = self._advancing = self._going_on = False
        self._failure: Exception | None = None
        self._stood_still = Wakeup()

    # ------------------------------------------------------------------ from the log

    def _arrived(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """These items are durable."""
        self._durable.extend(without_gaps(items, positions))
        self._advance()
        if self._durable and self._owned.condition is not Condition.RUNNING:
            self.give_up(self._owned.reason)

    def _append_failed(self, items: list[Item], behind: list[Item], error: Exception) -> None:
        """Nothing of what waits may overtake a write that failed: it fails as well, and was never sent."""
        if not isinstance(error, LogUnavailableError):
            logger.error("append_failed", partition=self._partition, error=repr(error))
        nothing = CommandError(f"{NOTHING_WRITTEN}{error}")
        doubt = CommandError(f"UNKNOWNOUTCOME the write may have happened, or may yet happen: {error}")
        self._fail_new(items, nothing if appended_nothing(error) else doubt)
        self._fail_new(behind, nothing)

    def _fail_new(self, items: list[Item], error: CommandError) -> None:
        """Reads among them may stand behind durable writes that are not applied yet: then they go on waiting."""
        if self._durable or self._advancing:
            if reads := [item for item in items if item.entry is None]:
                self._durable.append((reads, []))
            items = [item for item in items if item.entry is not None]
        self._answers.fail(items, error)

    # ------------------------------------------------------------------ the consumer's turn

    @property
    def first_offset(self) -> int | None:
        """The first durable offset that is to be applied from here; None when there is none."""
        for _, positions in self._durable:
            if positions:
                return positions[0].offset
        return None

    @property
    def in_trouble(self) -> bool:
        """Whether `advance_carefully` is needed."""
        return self._failure is not None

    async def settled(self) -> None:
        """Wait until it is known of everything that was sent whether it is in the log, and where."""
        await self.outbox.settled()

    async def idle(self, end: int) -> None:
        """Wait until nothing of ours is half applied: suspended, or making room for others below `end`.

        If it had to wait for what is above, clients could keep the consumer waiting for as long as they send enough.
        """
        worker = self._owned.worker
        while self._advancing or (self._going_on and worker.is_open and worker.machine.next_offset < end):
            await self._stood_still.wait()

    def hold(self) -> None:
        """The consumer applies records that stand before ours: nothing may come between. To be called when `idle`."""
        if self._advancing:
            raise InvariantError("writes of this process are being applied")
        self._busy = True

    def release(self) -> None:
        """The consumer is done."""
        self._busy = False
        self._advance()

    def give_up(self, reason: str, nothing: CommandError | None = None) -> None:
        """Give up, as the partition is set aside: what is in the log is applied later, and no client waits for it."""
        self._failure = None
        if self._owned.condition is Condition.STOPPED:
            self._owned.worker.gate.abandon()
        durable = [item for items, _ in self._durable for item in items]
        self._durable.clear()
        self._answers.fail(durable, in_the_log(reason))
        self._answers.fail(self.outbox.take(), nothing or CommandError(f"{NOTHING_WRITTEN}{reason}"))

    # ------------------------------------------------------------------ into the state

    def _advance(self) -> None:
        """Apply what is durable and next in line. Any trouble is left to `advance_carefully`, which the consumer calls.

        The hot path: no await, answers before RocksDB is written. After some milliseconds or a large reply it makes
        room for others, and goes on in the loop's next turn. What takes longer is suspended; new writes gather in the
        outbox.
        """
        if self._durable and not (self._advancing or self._busy or self._failure is not None):
            self._advancing = self.outbox.gathers = True
            self._owned.worker.gate.slices.run(self._advance_in_fiber)

    def _advance_in_fiber(self) -> None:
        worker, durable = self._owned.worker, self._durable
        running_seconds = worker.gate.slices.running_seconds
        ends = running_seconds() + PART_SECONDS
        try:
            while durable and not self._busy and self._failure is None and worker.is_open:
                worker.gate.enter()  # which may have taken its time
                if not (durable and worker.is_open) or not self._advance_group(worker.machine, *durable.popleft()):
                    return
                if durable and running_seconds() > ends:
                    self._make_room()
                    return
        finally:
            self._advancing = False
            self.outbox.go_on()
            self._stood_still.wake()

    def _advance_group(self, machine: Machine, items: list[Item], positions: list[RecordPosition]) -> bool:
        """Apply and answer a group; False: it is not its turn, or it was its beginning alone, or met trouble."""
        if positions and positions[0].offset != machine.next_offset:
            self._durable.appendleft((items, positions))
            return False
        path = self._owned.worker.path
        began = perf_counter()
        try:
            replies, done, written = apply_group(self._owned, items, positions, self._answers.evaluate)
            if written:
                last = next(item for item, _ in reversed(replies) if item.entry is not None)
                self.behind.commit(path, log_record(last, positions[written - 1]), written)
        except GreenletExit:  # the partition was closed while this was suspended
            unread, unknown = self._read_refusal() or CLOSED, in_the_log(self._owned.reason)
            self._answer([(item, unread if item.entry is None else unknown) for item in items])
            return False
        except Exception as error:  # noqa: BLE001 - raised again, where the consumer can deal with it
            machine.rollback()
            self._durable.appendleft((items, positions))
            self._failure = error
            return False
        if is_part := len(replies) < len(items):
            self._durable.appendleft((items[len(replies) :], positions[written:]))
        self._answer(replies, self._owned.worker.gate.slices.own_seconds(began), done, path)
        self._owned.pass_by(self._partition, machine.next_offset)
        if is_part:
            self._make_room()
        return not is_part

    def _fail_behind(self, error: Exception) -> None:
        """RocksDB was not written behind answers: nothing is applied before `advance_carefully` has written it."""
        self._failure = self._failure or error

    def _answer(
        self, replies: Replies, seconds: float = 0.0, done: Sequence[Applied] = (), path: CommitPath | None = None
    ) -> None:
        """Give replies to their clients, then notify listeners, then send the replies.

        In this order: what a client has sent behind its write, such as INFO, runs when the replies are sent.
        """
        value_bytes = self._answers.hand_out(replies, seconds)
        if path is not None:
            for applied in done:
                self._answers.tell_denials(replies, applied)
                path.observe(applied, value_bytes, seconds)
                value_bytes, seconds = 0, 0.0
        self._answers.delivered()

    def _make_room(self) -> None:
        if not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        try:
            self._advance()
        finally:
            self._stood_still.wake()

    async def advance_carefully(self) -> None:
        """Apply what is next in line after trouble: dead letters, a busy store, a record that stops the partition.

        Raises:
            Exception: as `Worker.apply`; what was not applied by then is answered by `give_up`.
        """
        await self.idle(0)
        failure, self._failure = self._failure, None
        if failure and not isinstance(failure, (UnusualError, StoreBusyError, InvariantError, PartitionStoppedError)):
            raise failure
        self._busy = True
        try:
            await self._owned.worker.path.write_gathered()
            while self._durable:
                items, positions = self._durable[0]
                if positions and positions[0].offset != self._owned.worker.machine.next_offset:
                    return
                self._durable.popleft()
                await self._apply_slowly(items, positions)
        finally:
            self._busy = False
        self._advance()

    async def _apply_slowly(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """One item after the other, each committed before it is answered."""
        worker = self._owned.worker
        places = iter(positions)
        for at, item in enumerate(items):
            if item.entry is None:
                reply = await worker.gate.call(partial(self._answers.evaluate, item))
                self._answer([(item, reply)])
                continue
            position = next(places)
            item.offset = position.offset
            record = (item.offset, position.time_ms, item.name, item.args, item.db, item.event_id, item.watch_id)
            try:
                applied = await worker.apply_decoded([log_record(item, position)], [record], waiting={item.offset})
            except BaseException:
                self._durable.appendleft((items[at:], [position, *places]))
                raise
            replies: Replies = [(item, outcome(applied, item.offset))]
            self._answers.tell_denials(replies, applied)
            self._answer(replies)
