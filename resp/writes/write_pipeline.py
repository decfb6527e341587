"""The write pipeline of one owned partition: takes a client's write to the log, the state and its reply.

    submit -> LocalWrites: to the log and into the state -> Answers

A read that stands behind an unapplied write of its connection waits in the same queue and is evaluated right after that
write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from greenlet import GreenletExit

from engine.apply.machine import Machine
from engine.commands.registry import Spec, keys_of
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition
from resp.writes.answers import Answers
from resp.writes.entries import event_entry
from resp.writes.items import Awaited, Item, Tick
from resp.writes.local_writes import LocalWrites
from resp.writes.outboxes import Outboxes
from resp.writes.stopping import CLOSED, LOADING, MOVED_AWAY, stopping
from resp.writes.wakeup import Wakeup
from slotlog.clock import ReadClock
from slotlog.log import Log

NOT_READY: Final = 1 << 62
"""An offset that no log reaches."""


class WritePipeline:
    """Takes the writes of one owned partition to the log, the state and their replies.

    Args:
        partition: its number.
        owned: its worker, and how it is.
        log: where writes go.
        outboxes: send writes there, and replies to clients.
        read_clock: what reads go by where it is ahead of the log's clock.

    Attributes:
        answers: to whom replies go, and how much waits.
        local_writes: what is on its way to the log and into the state.
        ready_offset: where the log ended when the server began, or clients were answered; before that it answers
            LOADING.
        told_offset: listeners were told of all that was applied before it.
        ticking: a TICK is under way.
        closing: no write is taken any more.
        on_submitted: told of each write that is queued; None when nobody wants to know.
    """

    def __init__(
        self, partition: int, owned: OwnedPartition, log: Log, outboxes: Outboxes, read_clock: ReadClock
    ) -> None:
        self.partition = partition
        self.owned = owned
        self.answers = Answers(owned, outboxes.delivered, read_clock)
        self.local_writes = LocalWrites(owned, outboxes, self.answers, partial(self.refusal, write=False))
        self.ready_offset = NOT_READY
        self.told_offset = 0
        self.ticking = self.closing = False
        self.on_submitted: Callable[[WritePipeline, Item], None] | None = None
        self._outbox = self.local_writes.outbox
        self._log = log
        self._moved = Wakeup()
        self._has_left = False

    @property
    def machine(self) -> Machine:
        """The open machine; RuntimeError while the partition is stopped."""
        return self.owned.worker.machine

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
            if self.ready_offset == NOT_READY:
                return CommandError("LOADING slotlog may not own this any more")
            # Less than there was: others may have acknowledged the rest.
            is_behind = owned.worker.machine.next_offset < self.ready_offset
            return CommandError("LOADING slotlog is applying its log") if is_behind else None
        if self.closing and (write or owned.worker.is_open):
            return stopping(self._log.partitions) if write else None
        hint = "; nothing was written" if write else ""
        return CommandError(f"ERR partition {self.partition} is {owned.condition}: {owned.reason}{hint}")

    def look_back(self) -> bool:
        """Whether the open state lacks what clients were answered: a store that failed has lost what it had gathered.

        Until the log has given it again nothing is read. What it lacks behind that is read as it was, so that listeners
        must hear of it once more.
        """
        self.ready_offset = max(self.ready_offset, self.local_writes.behind.answered_offset)
        self.told_offset = min(self.told_offset, self.ready_offset)
        worker = self.owned.worker
        return worker.is_open and worker.machine.next_offset < self.ready_offset < NOT_READY

    @property
    def is_coming(self) -> bool:
        """Whether it answers nobody yet, and will soon: it is being opened, or applies what was in the log."""
        refusal = self.refusal(write=False)
        return refusal is not None and refusal.message.startswith(LOADING)

    # ------------------------------------------------------------------ in

    def read(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """The reply of a read as of now, behind a command that is suspended in the partition.

        Raises:
            CommandError: its own error, or the partition was closed before it was done.
            DueError: a key of it is due by `wall_ms` and not by the log: `submit_after_tick` waits for a tick.
        """
        try:
            if not self.answers.reads_ended:
                return self.owned.evaluate(spec, args, db, wall_ms, at_ms)
        except GreenletExit:  # thrown into it where it was suspended
            pass
        raise self.refusal(write=self.answers.reads_ended) or CLOSED

    def submit(self, item: Item) -> None:
        """Queue a write, or a read that stands behind one. The hot path of a write."""
        outbox, answers = self._outbox, self.answers
        outbox.items.append(item)
        answers.pending_events += 1
        answers.pending_bytes += item.size
        if not outbox.scheduled:
            outbox.schedule()
        if self.on_submitted is not None and item.entry is not None:
            self.on_submitted(self, item)

    def submit_all(self, items: Sequence[Item], size: int) -> None:
        """Queue writes, which have so many bytes together."""
        outbox, answers = self._outbox, self.answers
        outbox.items.extend(items)
        answers.pending_events += len(items)
        answers.pending_bytes += size
        if not outbox.scheduled:
            outbox.schedule()
        if self.on_submitted is not None:
            for item in items:
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

    # ------------------------------------------------------------------ into the state

    async def reached(self, offset: int) -> None:
        """Wait until `offset` is applied and committed.

        Raises:
            CommandError: the partition is not applied here any more.
        """
        while (position := self.owned.committed) is None or position.next_offset <= offset:
            if self._has_left:
                raise CommandError(MOVED_AWAY)
            await self._moved.wait()

    def leave(self) -> None:
        """The partition is not applied here any more, or another pipeline has it: nobody waits for it here."""
        self._has_left = True
        self._moved.wake()

    def moved(self) -> None:
        """A batch is committed, of this process's records or others'."""
        self._moved.wake()

    @property
    def is_held(self) -> bool:
        """Whether a command is suspended in the partition."""
        return self.owned.worker.gate.is_held

    async def free(self) -> None:
        """Wait until no command is suspended in the partition: a `read` that follows at once need not wait."""
        await self.owned.worker.gate.free()

    def close(self, reason: str, nothing: CommandError | None = None) -> None:
        """Answer every client now, because the server ends. No read begins any more, as it might take long.

        Args:
            reason: why, for what may be in the log.
            nothing: the error of what is not; None: that the server ends.
        """
        self.closing = self.answers.reads_ended = True
        self.owned.worker.gate.abandon()
        items = self._outbox.take_sent()
        doubt = CommandError(f"UNKNOWNOUTCOME the write may have happened, or may yet happen: {reason}")
        self.answers.fail(items, doubt)
        self.local_writes.give_up(reason, nothing or stopping(self._log.partitions))
