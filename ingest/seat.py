"""One owned partition and how it is, as the consumer and its watch share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from engine.system import Position
from ingest.observer import Condition
from ingest.worker import Worker

RETRY_SECONDS_MIN: Final = 1.0

HasRoom = Callable[[int], bool]
"""Whether the disk, too full to apply anything, has room for what cleaning writes, and for so many bytes beside it."""


def no_room(_size: int) -> bool:
    """There is none."""
    return False


class Beside(Protocol):
    """Who applies this process's own appends from memory, beside the consumer: the RESP server's lane."""

    @property
    def first_offset(self) -> int | None:
        """The first durable offset that it will apply; None when there is none."""
        ...

    @property
    def in_trouble(self) -> bool:
        """Whether it needs `advance_carefully`."""
        ...

    async def settled(self) -> None:
        """Wait until it is known of everything that it sent whether it is in the log, and where."""
        ...

    def hold(self) -> None:
        """Apply nothing until `release`."""
        ...

    def release(self) -> None:
        """Apply what is next in line."""
        ...

    async def advance_carefully(self) -> None:
        """Apply what is next in line; raises as `Worker.apply`."""
        ...

    def give_up(self, reason: str) -> None:
        """The partition is set aside."""
        ...

    def tick_when_idle(self) -> None:
        """Append a TICK, unless one is under way or nothing can be written now."""
        ...


def _nobody_reads(_partition: int, _offset: int) -> None:
    """There is no reader yet."""


@dataclass(slots=True)
class Seat:
    """One owned partition.

    Attributes:
        worker: its store and machine; closed while the partition is stopped.
        condition, reason: how it is, and why it is not running.
        stopped_by_record: why it is not running is a record, not its store or its log.
        on_trial: open again after a record stopped it; it counts as stopped until a batch is committed.
        unreadable_offset: a record that the log cannot give; None if there is none.
        position: the committed one, also while the worker is closed; None before it was open.
        caught_up_ms: wall time at which nothing was left to apply; 0 if that was never seen.
        held_up_since: since when, on the monotonic clock, records are written that the log does not give; 0 if not.
        waits_for_room: it waits, with its store open, because the guard says that the disk is full.
        retry_at: when to try again, on the monotonic clock.
        retry_seconds: how long to wait after the next failure.
        beside: who applies own appends from memory; None when nobody does.
        pass_by: tells the log's reader that a partition is applied up to an offset by others than the consumer.
    """

    worker: Worker
    condition: Condition = Condition.OPENING
    reason: str = ""
    stopped_by_record: bool = False
    on_trial: bool = False
    unreadable_offset: int | None = None
    position: Position | None = None
    caught_up_ms: int = 0
    held_up_since: float = 0.0
    waits_for_room: bool = False
    retry_at: float = 0.0
    retry_seconds: float = RETRY_SECONDS_MIN
    beside: Beside | None = None
    pass_by: Callable[[int, int], None] = _nobody_reads

    @property
    def committed(self) -> Position | None:
        """The newest committed position; None before the worker was open."""
        return self.worker.machine.position if self.worker.is_open else self.position
