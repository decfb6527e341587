"""An owned partition and its condition, shared by the consumer and its watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

from engine.commands.registry import Spec
from engine.errors import CommandError, DueError
from engine.store.failures import is_store_failure, read_failure
from engine.store.store import is_damage
from engine.tables.system import Position
from engine.values.replies import Reply
from ingest.applying.batches.worker import Worker
from ingest.membership.plan import Role
from ingest.reporting.observer import Condition
from slotlog.shared.errors import EventError

RETRY_SECONDS_MIN: Final = 1.0

HasRoom = Callable[[int], bool]
"""Whether the disk, too full to apply anything, has room for what cleaning writes, and for so many bytes beside it."""


def no_room(_size: int) -> bool:
    """There is none."""
    return False


class LocalAppends(Protocol):
    """Applies this process's own appends from memory, beside the consumer: the RESP server's write pipeline."""

    @property
    def first_offset(self) -> int | None:
        """The first durable offset that it will apply; None when there is none."""
        ...

    @property
    def in_trouble(self) -> bool:
        """Whether the next append needs `advance_carefully`."""
        ...

    async def settled(self) -> None:
        """Wait until the outcome of every append is known: whether it is in the log, and at which offset."""
        ...

    async def idle(self, end: int) -> None:
        """Wait until none of its work is suspended while it is applied, or below `end` has made room for others."""
        ...

    def hold(self) -> None:
        """Apply nothing until `release`. Call it after `idle`."""
        ...

    def release(self) -> None:
        """Apply what is next in line."""
        ...

    async def advance_carefully(self) -> None:
        """Apply what is next in line; raises as `Worker.apply`."""
        ...

    def give_up(self, reason: str) -> None:
        """Give up everything, because the partition is set aside."""
        ...


def _nobody_reads(_partition: int, _offset: int) -> None:
    """There is no reader yet."""


def _nobody_leaves() -> None:
    """Nobody serves it."""


def _nobody_applies(_reason: str) -> None:
    """There is no consumer yet."""


def _is_another() -> bool:
    """Nothing is known to be damaged."""
    return False


@dataclass(slots=True)
class OwnedPartition:
    """A partition that this process applies, with its condition.

    Attributes:
        role: what this process is to it; of one that it owns it alone sends dead letters and ticks.
        owner_offset: a follower applies no further: so far the owner has committed.
        waits_for_owner: it is there.
        worker: its store and machine; closed while the partition is stopped.
        condition, reason: how it is, and why it is not running.
        stopped_by_record: why it is not running is a record, not its store or its log.
        holds_record: why it waits is a record from the future.
        on_trial: open again after a record stopped or held it; it counts as before until a batch is committed.
        unreadable_offset: a record that the log cannot give; None if there is none.
        position: the committed one, also while the worker is closed; None before it was open.
        caught_up_ms: wall time at which nothing was left to apply; 0 if that was never seen.
        held_up_since: since when, on the monotonic clock, records are written that the log does not give; 0 if not.
        begin_offset: where the log began when it was last asked; None before.
        snapshot_offset: the position of the newest verified snapshot; 0: there is none; None: it is not known yet.
        waits_for_room: it waits, with its store open, because the guard says that the disk is full.
        opens_again: it waits because a write met a full disk, with its store open, or its opening did: it is to be
            opened anew.
        retry_at: when to try again, on the monotonic clock.
        retry_seconds: how long to wait after the next failure.
        local_appends: who applies own appends from memory; None when nobody does.
        tick: appends a TICK through those, unless one is under way or nothing can be written now; None without them.
        pass_by: tells the log's reader that a partition is applied up to an offset by others than the consumer.
        leave: ends what serves it, because this process gives it up.
        stop: lets the consumer set the partition aside, for a reason that has to do with its store.
        is_still_damaged: whether the store in which damage was met is still the one to be opened.
    """

    worker: Worker
    role: Role = Role.OWNER
    owner_offset: int = 0
    waits_for_owner: bool = False
    condition: Condition = Condition.OPENING
    reason: str = ""
    stopped_by_record: bool = False
    holds_record: bool = False
    on_trial: bool = False
    unreadable_offset: int | None = None
    position: Position | None = None
    caught_up_ms: int = 0
    held_up_since: float = 0.0
    begin_offset: int | None = None
    snapshot_offset: int | None = 0
    waits_for_room: bool = False
    opens_again: bool = False
    retry_at: float = 0.0
    retry_seconds: float = RETRY_SECONDS_MIN
    local_appends: LocalAppends | None = None
    tick: Callable[[], None] | None = None
    pass_by: Callable[[int, int], None] = _nobody_reads
    leave: Callable[[], None] = _nobody_leaves
    stop: Callable[[str], None] = _nobody_applies
    is_still_damaged: Callable[[], bool] = _is_another

    @property
    def held_up_seconds(self) -> float:
        """How long records have been written that the log does not give: somebody's transaction is open; 0 if none."""
        return monotonic() - self.held_up_since if self.held_up_since else 0.0

    def begin_anew(self) -> None:
        """Forget how it was: it is given up, and may be taken again later."""
        self.condition, self.reason = Condition.OPENING, ""
        self.stopped_by_record = self.holds_record = self.on_trial = self.waits_for_room = self.opens_again = False
        self.unreadable_offset = self.position = self.begin_offset = None
        self.caught_up_ms, self.held_up_since, self.owner_offset = 0, 0.0, 0
        self.retry_at, self.retry_seconds = 0.0, RETRY_SECONDS_MIN
        self.is_still_damaged = _is_another
        self.begin_serving_nobody()

    def begin_serving_nobody(self) -> None:
        """Forget who has served it."""
        self.local_appends = self.tick = None
        self.leave = _nobody_leaves

    @property
    def speaks(self) -> bool:
        """Whether this process may do what an owner alone does now: dead letters, ticks, commits, cuts of the log."""
        return self.role is Role.OWNER and self.worker.may_speak()

    @property
    def is_cut_off(self) -> bool:
        """Whether the log has lost records that no snapshot has, as far as is known: no state can be built of it."""
        return self.snapshot_offset is not None and (self.begin_offset or 0) > self.snapshot_offset

    @property
    def committed(self) -> Position | None:
        """The newest committed position; None before the worker was open."""
        return self.worker.machine.position if self.worker.is_open else self.position

    @property
    def said_to(self) -> int | None:
        """Before which offset its owners have done all that an owner does: what it commits; None as `committed`."""
        return None if (position := self.committed) is None else max(position.next_offset, self.worker.said_to)

    def evaluate(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """`Machine.evaluate` behind what is suspended in the machine, where a failing store stops the partition.

        Raises:
            CommandError: its own error, or why the partition is stopped. DueError: as `Machine.evaluate`.
            GreenletExit: the partition was closed while this was suspended.
        """
        worker = self.worker
        if worker.gate.is_held:
            worker.gate.enter()
            if not worker.is_open:
                raise CommandError(f"ERR partition {worker.partition} is {self.condition}: {self.reason}")
        try:
            return worker.machine.evaluate(spec, args, db, wall_ms, at_ms)
        except (CommandError, EventError, DueError):
            raise
        except Exception as error:
            self.read_failed(error)
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Guard any other read of the store for a reply to a client.

        Raises:
            CommandError: why the partition is stopped.
        """
        try:
            yield
        except Exception as error:
            self.read_failed(error)
            raise

    def read_failed(self, error: Exception) -> None:
        """Stop the partition if the error of a read is a failure of its store.

        In the loop's next turn: whoever has read may stand in the middle of a batch.

        Raises:
            CommandError: what to tell a client then.
        """
        if not is_store_failure(error) or not self.worker.is_open:
            return
        if is_damage(error):
            self.note_damage()
        reason, machine = read_failure(error), self.worker.machine

        def stop() -> None:
            if self.worker.is_open and self.worker.machine is machine:  # else it was set aside meanwhile
                self.stop(reason)

        asyncio.get_running_loop().call_soon(stop)
        raise CommandError(f"ERR partition {self.worker.partition} is {Condition.STOPPED}: {reason}") from error

    async def pass_by_unreadable(self) -> bool:
        """Go past records that the log cannot give, if an operator has decided so: they are never fetched.

        Returns:
            Whether there is none that stops the partition.
        """
        machine, offset = self.worker.machine, self.unreadable_offset
        if offset is not None and offset == machine.next_offset < (end := machine.position.skips.end_from(offset)):
            await self.worker.path.pass_by(end)
            self.unreadable_offset = None
        return self.unreadable_offset is None

    def note_damage(self) -> None:
        """Damage was met in the open store: it is not opened again before another one is in its place, or a restart.

        An opening would succeed, as it reads next to nothing, and the partition would run until the next read of it.
        """
        self.is_still_damaged = self.worker.store.sameness()
