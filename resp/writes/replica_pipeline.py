"""The reads of a partition that this worker follows, for clients that have said READONLY.

A follower answers by the log's clock: it appends no TICK that would move it, and a key that was due by the wall clock
alone might come back, where the log has a PERSIST that is not applied here yet. So its answers are those of its owner
at an earlier time, and a reader never goes back.
"""

from __future__ import annotations

from typing import Final

from engine.commands.registry import Spec
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.partitions.owned_partition import OwnedPartition
from resp.writes.outboxes import Outboxes
from resp.writes.write_pipeline import NOT_READY, WritePipeline
from slotlog.clock import ReadClock
from slotlog.log import Log

_BEHIND: Final = CommandError("LOADING slotlog is applying its log")


class ReplicaPipeline(WritePipeline):
    """Answers reads once it is where its owner was, and not behind what it has shown.

    Args:
        partition: its number.
        owned: its worker, and how it is.
        log: as of a write pipeline, as are the two below.
        outboxes: nothing is sent by them.
        read_clock: not asked.
        shown_to: what clients have seen already when it begins: everything before this offset.
    """

    def __init__(
        self,
        partition: int,
        owned: OwnedPartition,
        log: Log,
        outboxes: Outboxes,
        read_clock: ReadClock,
        shown_to: int,
    ) -> None:
        super().__init__(partition, owned, log, outboxes, read_clock)
        self._shown_to = shown_to

    def heard(self, owner_offset: int) -> None:
        """Its owner has applied everything before this offset."""
        if self.ready_offset == NOT_READY:
            self.ready_offset = max(owner_offset, self._shown_to)

    def moved(self) -> None:
        """A batch is committed, and clients may see it: a state that is restored later is shown once it is there."""
        super().moved()
        if self.ready_offset != NOT_READY:
            self.ready_offset = max(self.ready_offset, self.answers_at)

    @property
    def is_ready(self) -> bool:
        """Whether it answers."""
        return self.refusal(write=False) is None

    @property
    def answers_at(self) -> int:
        """The offset before which it has applied everything."""
        position = self.owned.committed
        return 0 if position is None else position.next_offset

    def refusal(self, *, write: bool) -> CommandError | None:
        """Why no command can be taken now; None when it can."""
        return _BEHIND if self.answers_at < self.ready_offset else super().refusal(write=write)

    def read(self, spec: Spec, args: list[bytes], db: int, wall_ms: int = 0, at_ms: int = 0) -> Reply:
        """The reply of a read as of the log.

        Raises:
            CommandError: its own error, or the partition was closed before it was done.
        """
        return super().read(spec, args, db, 0, at_ms)
