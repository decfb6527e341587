"""One owned partition and how it is, as the consumer and its watch share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.system import Position
from ingest.observer import Condition
from ingest.worker import Worker

RETRY_SECONDS_MIN: Final = 1.0


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
        retry_at: when to try again, on the monotonic clock.
        retry_seconds: how long to wait after the next failure.
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
    retry_at: float = 0.0
    retry_seconds: float = RETRY_SECONDS_MIN

    @property
    def committed(self) -> Position | None:
        """The newest committed position; None before the worker was open."""
        return self.worker.machine.position if self.worker.is_open else self.position
