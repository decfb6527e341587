"""Counts what a replay could not apply, and names the records that the live state did apply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from engine.apply.records import Applied
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import NullObserver


@dataclass(slots=True)
class NotApplied:
    """Of one partition.

    Attributes:
        dead_letters: records that can never be applied.
        rejected: commands that answered with an error.
        first_rejected: the first of them: its offset, its name and its error.
        duplicates: events that were known by their id.
        skipped: records that an operator has decided to go past.
        newly_dead: offsets of dead letters that were none when the live state met them.
    """

    dead_letters: int = 0
    rejected: int = 0
    first_rejected: str = ""
    duplicates: int = 0
    skipped: int = 0
    newly_dead: tuple[int, ...] = ()


class Unapplied(NullObserver):
    """Counts while a replay goes on."""

    def __init__(self) -> None:
        self.counts: defaultdict[int, NotApplied] = defaultdict(NotApplied)
        self._dead: defaultdict[int, list[int]] = defaultdict(list)

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """One batch."""
        counts = self.counts[partition]
        counts.dead_letters += len(applied.dead_letters)
        if applied.rejections and not counts.first_rejected:
            counts.first_rejected = "offset {}, {}: {}".format(*applied.rejections[0])
        counts.rejected += applied.rejected
        counts.duplicates += applied.duplicates
        counts.skipped += applied.skipped
        self._dead[partition] += [offset for offset, _ in applied.dead_letters]

    async def compare(self, dead_letters: DeadLetters, live_offsets: Mapping[int, int]) -> None:
        """Note which dead letters were none before: below the live state's position, and not kept beside the log.

        Args:
            dead_letters: all that were ever stored. Nothing is noted where they do not tell their offsets.
            live_offsets: of each partition with a live state, what it has applied everything before.
        """
        for partition, next_offset in live_offsets.items():
            if met := [offset for offset in self._dead[partition] if offset < next_offset]:
                kept = await dead_letters.offsets(partition)
                if kept is not None:
                    self.counts[partition].newly_dead = tuple(offset for offset in met if offset not in kept)
