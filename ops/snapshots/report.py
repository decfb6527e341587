"""Progress of the snapshots and restores of one partition, for metrics and `/readyz`."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from slotlog.wording import sized


@dataclass(slots=True)
class Restoring:
    """The restore of one partition.

    Attributes:
        id: of the snapshot; empty while none is chosen.
        done, total: bytes fetched, and of all files.
        began: when it began, on the monotonic clock.
        waits: why it cannot go on now; empty where it can.
    """

    id: str = ""
    done: int = 0
    total: int = 0
    began: float = 0.0
    waits: str = ""

    @property
    def eta_seconds(self) -> float | None:
        """How much longer it will take at the same pace; None: not known yet."""
        seconds = monotonic() - self.began
        return seconds / self.done * (self.total - self.done) if self.done else None

    @property
    def text(self) -> str:
        """For `/readyz`."""
        if not self.id:
            return f"a snapshot is looked for{': ' if self.waits else ''}{self.waits}"
        left = self.eta_seconds
        eta = "" if left is None else f", about {left:.0f} s left"
        return f"snapshot {self.id} is being restored: {sized(self.done)} of {sized(self.total)}{eta}"


class Taking(NamedTuple):
    """The snapshot that is being taken, and how far it has come.

    Attributes:
        what: `read` for its digest, `upload`, or `verify`.
        done, total: bytes of the upload or the verification; 0: not counted.
    """

    what: str
    done: int = 0
    total: int = 0


class Newest(NamedTuple):
    """The newest snapshot that the store has, or had when it was asked last.

    Attributes:
        next_offset: its position.
        taken_ms: when it was published.
        is_verified: whether it is offered.
    """

    next_offset: int
    taken_ms: int
    is_verified: bool


@dataclass(slots=True)
class SnapshotReport:
    """The snapshots of one partition, as far as this process knows.

    Attributes:
        taken, failed: attempts since the start, by how they ended.
        new_bytes: uploaded since the start.
        size: bytes of the last one's files.
        pause_seconds: for which the last one held up the event loop.
        seconds: that the last one took, upload and verification included.
        next_offset, taken_ms: of the newest verified one; 0 and None: none is known.
        newest: of all, verified or not; None: none is known.
        kept_from: the first offset of the log that the oldest verified one needs; None: none is known.
        taking: the one that is being taken; None: there is none.
        error: why the last attempt failed; empty if it did not.
        aging: offsets past half of the log's retention that no verified snapshot has.
        trimmed: offsets that were deleted from the log behind snapshots, since the start.
        trim_error: why nothing could be deleted at the last attempt; empty if it could.
        restored: how often the partition was restored since the start.
        restoring: the restore that is under way; None: there is none.
    """

    taken: int = 0
    failed: int = 0
    new_bytes: int = 0
    size: int = 0
    pause_seconds: float = 0.0
    seconds: float = 0.0
    next_offset: int = 0
    taken_ms: int | None = None
    newest: Newest | None = None
    kept_from: int | None = None
    taking: Taking | None = None
    error: str = ""
    aging: int = 0
    trimmed: int = 0
    trim_error: str = ""
    restored: int = 0
    restoring: Restoring | None = None
