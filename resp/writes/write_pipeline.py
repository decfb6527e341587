"""The write pipeline of one owned partition: takes a client's write to the log, the state and its reply.

    submit -> outbox -> log.append -> durable -> machine.apply, in memory -> commit -> answer

Writes of one turn of the event loop go to the log together, one append at a time. What is durable is applied from
memory, not read back, as soon as it is next in line; records of others that stand before it are the consumer's, which
calls `advance` when it has applied them. A read that stands behind an unapplied write of its connection waits in the
same queue and is evaluated right after that write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final

import structlog
from greenlet import GreenletExit

from engine.apply.machine import Machine
from engine.apply.records import Applied
from engine.commands.registry import Spec, keys_of
from engine.errors import CommandError, PartitionStoppedError, StoreBusyError
from engine.values.replies import Reply
from ingest.applying.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition
from resp.writes.entries import event_entry
from resp.writes.groups import PART_SECONDS, Answers, Part, UnusualError, apply_group, evaluated, outcome
from resp.writes.items import ITEM_BYTES, NOTHING_WRITTEN, Awaited, Group, Item, Tick, log_record, without_gaps
from resp.writes.outbox import Outbox
from resp.writes.stopping import CLOSED, in_the_log, stopping
from resp.writes.wakeup import Wakeup
from slotlog.clock import ReadClock
from slotlog.errors import LogUnavailableError, appended_nothing
from slotlog.log import Log, RecordPosition
from slotlog.shared.errors import InvariantError

PENDING_EVENTS_MAX: Final = 50_000
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024

logger = structlog.get_logger(__name__)


class WritePipeline:
    """Takes the writes of one owned partition to the log, the state and their replies.

    Args:
        partition: its number.
        owned: its worker, and how it is.
        log: where writes go.
        delivered: called after each lot of answers, so that they are sent.
        read_clock: what reads go by where it is ahead of the log's clock.
    """

    def __init__(
        self, partition: int, owned: OwnedPartition, log: Log, delivered: Callable[[], None], read_clock: ReadClock
    ) -> None:
        self.partition = partition
        self.owned = owned
        self.pending_events = self.pending_bytes = 0
        self.ready_offset = 1 << 62  # not known yet
        self._log, self._delivered, self._read_clock = log, delivered, read_clock
        self._outbox = Outbox(log, self._arrived, self._append_failed)
        self._durable: deque[Group] = deque()
        self._busy = self._advancing = self._going_on = self.ticking = self.closing = self._closed = False
        self._failure: Exception | None = None
        self._moved, self._stood_still = Wakeup(), Wakeup()
        self.on_submitted: Callable[[WritePipeline, Item], None] | None = None  # told of each write that is queued

    @property
    def machine(self) -> Machine:
        """The open machine; RuntimeError while the partition is stopped."""
        return self.owned.worker.machine

    @property
    def crowded(self) -> bool:
        """Whether so much waits here that clients should be held."""
        return self.pending_events > PENDING_EVENTS_MAX or self.pending_bytes > PENDING_BYTES_MAX

    def refusal(self, *, write: bool) -> CommandError | None:
        """Why no command can be taken now; None when it can."""
        owned = self.owned
        if owned.condition is Condition.RUNNING and not self.closing:
            if owned.worker.machine.next_offset >= self.ready_offset:
                return None
            return CommandError("LOADING slotlog is applying its log")
        if owned.condition is Condition.OPENING:
            return CommandError("LOADING slotlog is opening its state")
        if owned.condition is Condition.WAITING and not write and owned.worker.is_open:
            return None
        if self.closing and (write or owned.worker.is_open):
            return stopping(self._log.partitions) if write else None
        hint = "; nothing was written" if write else ""
        return CommandError(f"ERR partition {self.partition} is {owned.condition}: {owned.reason}{hint}")

    # ------------------------------------------------------------------ in

    def read(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """The reply of a read as of now, behind a command that is suspended in the partition.

        Raises:
            CommandError: its own error, or the partition was closed before it was done.
            DueError: a key of it is due by `wall_ms` and not by the log: `submit_after_tick` waits for a tick.
        """
        try:
            if not self._closed:
                return self.owned.evaluate(spec, args, db, wall_ms, at_ms)
        except GreenletExit:  # thrown into it where it was suspended
            pass
        raise self.refusal(write=self._closed) or CLOSED

    def submit(self, item: Item) -> None:
        """Queue a write, or a read that stands behind one."""
        outbox = self._outbox
        outbox.items.append(item)
        self.pending_events += 1
        self.pending_bytes += item.size
        if not outbox.scheduled:
            outbox.schedule()
        if self.on_submitted is not None and item.entry is not None:
            self.on_submitted(self, item)

    def submit_after_tick(self, item: Item) -> None:
        """Queue a read behind a TICK, which moves the partition's clock to now. One TICK is under way at a time."""
        self.tick()
        self.submit(item)

    def tick(self) -> None:
        """Append a TICK, unless one is under way."""
        if not self.ticking:
            self.ticking = True
            self.submit(Tick(self.partition, self._ticked))

    def _ticked(self) -> None:
        self.ticking = False

    def tick_when_idle(self) -> None:
        """`tick`, unless nothing can be written now."""
        if self.refusal(write=True) is None:
            self.tick()

    async def write(self, name: bytes, args: list[bytes], db: int = 0) -> Reply:
        """Append an event, and wait for its outcome. A CommandError is returned, not raised."""
        return await self.submit_awaited(name, args, db).done

    def submit_awaited(self, name: bytes, args: list[bytes], db: int) -> Awaited:
        """Append an event whose outcome a coroutine waits for."""
        item = Awaited(name, args, db, event_entry(self.partition, name, args, keys_of(name, args), db=db))
        self.submit(item)
        return item

    # ------------------------------------------------------------------ from the log

    def _arrived(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """These items are durable."""
        self._durable.extend(without_gaps(items, positions))
        self.advance()
        if self._durable and self.owned.condition is not Condition.RUNNING:
            self.give_up(self.owned.reason)

    def _append_failed(self, items: list[Item], behind: list[Item], error: Exception) -> None:
        """Nothing of what waits may overtake a write that failed: it fails as well, and was never sent."""
        if not isinstance(error, LogUnavailableError):
            logger.error("append_failed", partition=self.partition, error=repr(error))
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
        self._fail(items, error)

    # ------------------------------------------------------------------ into the state

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

    async def reached(self, offset: int) -> None:
        """Wait until `offset` is applied and committed."""
        while (position := self.owned.committed) is None or position.next_offset <= offset:
            await self._moved.wait()

    def moved(self) -> None:
        """A batch is committed, of this process's records or others'."""
        self._moved.wake()

    async def settled(self) -> None:
        """Wait until it is known of everything that was sent whether it is in the log, and where."""
        await self._outbox.settled()

    @property
    def is_held(self) -> bool:
        """Whether a command is suspended in the partition."""
        return self.owned.worker.gate.is_held

    async def free(self) -> None:
        """Wait until no command is suspended in the partition: a `read` that follows at once need not wait."""
        await self.owned.worker.gate.free()

    async def idle(self) -> None:
        """Wait until nothing of ours is suspended in the middle of being applied."""
        while self._advancing:
            await self._stood_still.wait()

    def hold(self) -> None:
        """The consumer applies records that stand before ours: nothing may come between. To be called when `idle`."""
        if self._advancing:
            raise InvariantError("writes of this process are being applied")
        self._busy = True

    def release(self) -> None:
        """The consumer is done."""
        self._busy = False
        self.advance()

    def advance(self) -> None:
        """Apply what is durable and next in line. Any trouble is left to `advance_carefully`, which the consumer calls.

        The hot path: no await, answers after the commit. After some milliseconds or a large reply it makes room for
        others, and goes on in the loop's next turn. What takes longer is suspended; new writes gather in the outbox.
        """
        if self._durable and not (self._advancing or self._busy or self._failure is not None):
            self._advancing = self._outbox.gathers = True
            self.owned.worker.gate.slices.run(self._advance)

    def _advance(self) -> None:
        worker, durable = self.owned.worker, self._durable
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
            self._outbox.go_on()
            self._stood_still.wake()

    def _advance_group(self, machine: Machine, items: list[Item], positions: list[RecordPosition]) -> bool:
        """Apply and answer a group; False: it is not its turn, or it was its beginning alone, or met trouble."""
        if positions and positions[0].offset != machine.next_offset:
            self._durable.appendleft((items, positions))
            return False
        began = perf_counter()
        try:
            answers, done, written = self._apply(machine, items, positions)
        except GreenletExit:  # the partition was closed while this was suspended
            unread = self.refusal(write=False) or CLOSED
            unknown = in_the_log(self.owned.reason)
            self._answer([(item, unread if item.entry is None else unknown) for item in items], 0.0)
            return False
        except Exception as error:  # noqa: BLE001 - raised again, where the consumer can deal with it
            machine.rollback()
            self._durable.appendleft((items, positions))
            self._failure = error
            return False
        if is_part := len(answers) < len(items):
            self._durable.appendleft((items[len(answers) :], positions[written:]))
        seconds = self.owned.worker.gate.slices.own_seconds(began)
        self._answer(answers, seconds, done)
        self.owned.pass_by(self.partition, machine.next_offset)
        if is_part:
            self._make_room()
        return not is_part

    def _make_room(self) -> None:
        if not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        self.advance()

    def _apply(self, machine: Machine, items: list[Item], positions: list[RecordPosition]) -> Part:
        """Apply and commit a group, or its beginning."""
        part = apply_group(self.owned, items, positions, self._read_clock)
        if part.written:
            last = next(item for item, _ in reversed(part.answers) if item.entry is not None)
            machine.commit(self._log.fingerprint(self.partition, log_record(last, positions[part.written - 1])))
        return part

    async def advance_carefully(self) -> None:
        """`advance` after it met trouble: dead letters, a store that is busy, a record that stops the partition.

        Raises:
            Exception: as `Worker.apply`; what was not applied by then is answered by `give_up`.
        """
        await self.idle()
        failure, self._failure = self._failure, None
        if failure and not isinstance(failure, (UnusualError, StoreBusyError, InvariantError, PartitionStoppedError)):
            raise failure
        self._busy = True
        try:
            while self._durable:
                items, positions = self._durable[0]
                if positions and positions[0].offset != self.machine.next_offset:
                    return
                self._durable.popleft()
                await self._apply_slowly(items, positions)
        finally:
            self._busy = False
        self.advance()

    async def _apply_slowly(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """One item after the other, each committed before it is answered."""
        worker = self.owned.worker
        places = iter(positions)
        for at, item in enumerate(items):
            if item.entry is None:
                reply = await worker.gate.call(partial(evaluated, self.owned, item, self._read_clock))
                self._answer([(item, reply)], 0.0)
                continue
            position = next(places)
            item.offset = position.offset
            record = (item.offset, position.time_ms, item.name, item.args, item.db, item.event_id, item.watch_id)
            try:
                applied = await worker.apply_decoded([log_record(item, position)], [record], waiting={item.offset})
            except BaseException:
                self._durable.appendleft((items[at:], [position, *places]))
                raise
            self._answer([(item, outcome(applied, item.offset))], 0.0)

    def give_up(self, reason: str, nothing: CommandError | None = None) -> None:
        """The partition is set aside: what is in the log is applied when it goes on, and nobody waits for that."""
        self._failure = None
        if self.owned.condition is Condition.STOPPED:
            self.owned.worker.gate.abandon()
        durable = [item for items, _ in self._durable for item in items]
        self._durable.clear()
        self._fail(durable, in_the_log(reason))
        self._fail(self._outbox.take(), nothing or CommandError(f"{NOTHING_WRITTEN}{reason}"))

    def close(self, reason: str) -> None:
        """Answer everybody now: the server ends. No read begins any more: nobody knows how long it would take."""
        self.closing = self._closed = True
        self.owned.worker.gate.abandon()
        items = self._outbox.take_sent()
        self._fail(items, CommandError(f"UNKNOWNOUTCOME the write may have happened, or may yet happen: {reason}"))
        self.give_up(reason, stopping(self._log.partitions))

    # ------------------------------------------------------------------ out

    def _answer(self, answers: Answers, seconds: float, done: Sequence[Applied] = ()) -> None:
        """Hand the replies out; each took its share of `seconds`. Then tell of what was done, and let them be sent.

        In this order: what a client has sent behind its write, such as INFO, runs when the replies are sent.
        """
        share = seconds / (len(answers) or 1)
        for item, reply in answers:
            try:
                item.answer(reply, share)
            except Exception:  # a bug of ours: the others have to be answered all the same
                logger.exception("answer_failed", command=item.name)
                item.lose()
        size = sum([item.size for item, _ in answers])
        self.pending_bytes -= size
        self.pending_events -= len(answers)
        value_bytes = size - ITEM_BYTES * len(answers)
        for applied in done:
            self.owned.worker.observe(applied, value_bytes, seconds)
            value_bytes, seconds = 0, 0.0
        self._delivered()

    def _fail(self, items: Sequence[Item], error: CommandError) -> None:
        """Writes get the error; reads behind them are still possible, and see what is due by the wall clock as gone."""
        for item in items:  # one by one, as replies may be large
            self._answer([(item, error if item.entry is not None else self._read_anyway(item, error))], 0.0)

    def _read_anyway(self, item: Item, error: CommandError) -> Reply:
        """The reply of a read in a partition that is in trouble."""
        worker = self.owned.worker
        if not self._closed:
            worker.gate.enter()
            if worker.is_open:
                return evaluated(self.owned, item, self._read_clock, by_wall=True)
        return error
