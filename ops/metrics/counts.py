"""Counts each partition's events in plain numbers: adding a batch takes a microsecond."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import Final

from engine.apply.records import Applied
from ingest.reporting.observer import Cleaned, Condition
from slotlog.clock import now_ms
from slotlog.distribution import Distribution
from slotlog.shared.limits import TIME_MS_MAX

UNHEARD_SECONDS: Final = 15.0
"""After so long without an answer the log counts as away. It is asked every 2 s, and one question may take a while on a
busy broker."""


class PartitionCounts:
    """One partition's numbers, since the start of the process.

    Attributes:
        applied, rejected, dead, duplicates, skipped: records, as `engine.apply.records.Applied` tells them apart.
        value_bytes: of the records' values.
        commands, rejected_commands: by name.
        condition: how the partition is.
        lag_events, lag_seconds: as last heard; None and 0 before.
        lag_at: when that was, on the monotonic clock; before, when these counts began.
        cleaned: sums of what the slices of cleaning did.
        store_errors: failed flushes and compactions of stores that are closed.
        expiry_due_ms, grave_ms, ranges_waiting: what they left, as `Cleaned` has it.
    """

    __slots__ = (
        "applied",
        "cleaned",
        "commands",
        "condition",
        "dead",
        "duplicates",
        "expiry_due_ms",
        "grave_ms",
        "lag_at",
        "lag_events",
        "lag_seconds",
        "ranges_waiting",
        "rejected",
        "rejected_commands",
        "skipped",
        "store_errors",
        "value_bytes",
    )

    def __init__(self) -> None:
        self.applied = self.rejected = self.dead = self.duplicates = self.skipped = self.value_bytes = 0
        self.commands: dict[bytes, int] = {}
        self.rejected_commands: Counter[bytes] = Counter()
        self.condition = Condition.OPENING
        self.lag_events: int | None = None
        self.lag_seconds = 0.0
        self.lag_at = monotonic()
        self.cleaned = Cleaned()
        self.expiry_due_ms = self.grave_ms = self.ranges_waiting = 0
        self.store_errors = 0

    def note_lag(self, events: int, seconds: float) -> None:
        """The log has said how far the partition is behind it."""
        self.lag_events, self.lag_seconds, self.lag_at = events, seconds, monotonic()

    def lag_now(self) -> tuple[bool, float]:
        """Whether the lag is known, and how long the partition may have been behind, in seconds.

        Nobody knows what came into a log since it answered last: that time counts as lag, too.
        """
        age = monotonic() - self.lag_at
        if self.lag_events is not None and age <= UNHEARD_SECONDS:
            return True, self.lag_seconds
        return False, self.lag_seconds + age

    def add(self, applied: Applied, value_bytes: int) -> None:
        """Count one batch."""
        dead = len(applied.dead_letters)
        self.applied += applied.records - dead - applied.duplicates - applied.skipped
        self.value_bytes += value_bytes
        self.dead += dead
        self.duplicates += applied.duplicates
        self.skipped += applied.skipped
        commands = self.commands
        for name, amount in applied.commands.items():
            commands[name] = commands.get(name, 0) + amount
        if applied.rejected:
            self.rejected += applied.rejected
            self.rejected_commands.update(applied.rejected_commands)

    def add_cleaned(self, cleaned: Cleaned) -> None:
        """Count one slice of cleaning. What it says of the backlog is about its own kind."""
        self.ranges_waiting = cleaned.ranges_waiting
        if cleaned.grave_ms is not None:
            self.grave_ms = cleaned.grave_ms
        if cleaned.expiry_due_ms is not None:
            self.expiry_due_ms = cleaned.expiry_due_ms
        total = self.cleaned
        self.cleaned = Cleaned(
            keys=total.keys + cleaned.keys,
            fields=total.fields + cleaned.fields,
            graves=total.graves + cleaned.graves,
            elements=total.elements + cleaned.elements,
            ranges=total.ranges + cleaned.ranges,
            forgotten=total.forgotten + cleaned.forgotten,
        )


def add_latency(latency: Distribution, applied: Applied) -> None:
    """Count how old the events of a batch were when it was committed, each as the oldest."""
    if 0 < applied.first_time_ms <= TIME_MS_MAX:
        latency.add(max(0, now_ms() - applied.first_time_ms) / 1000, applied.records)
