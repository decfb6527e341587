"""A dead letter that was found, and the protocol of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ingest.dead_letters.dead_letter import DeadLetter
from slotlog.log.embedded.file.chain import OFFSET_MASK
from slotlog.log.log import Entry

PAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The dead letters of one page have this many bytes at most, unless there is one alone."""


class Wanted(NamedTuple):
    """A selection of dead letters: of one partition or all (None), `first_offset` to `last_offset`."""

    partition: int | None = None
    first_offset: int = 0
    last_offset: int = OFFSET_MASK

    def has(self, partition: int, offset: int) -> bool:
        """Whether the dead letter of this position is one of them."""
        return self.partition in {None, partition} and self.first_offset <= offset <= self.last_offset


class Went(NamedTuple):
    """The position to which a dead letter was sent again."""

    partition: int
    offset: int


class Summary(NamedTuple):
    """A dead letter without its content. `size` counts key and value; `redriven` is where it was sent again."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    reason: str
    size: int
    redriven: Went | None


class Found(NamedTuple):
    """A dead letter, and where it was sent again to, if it was."""

    dead_letter: DeadLetter
    redriven: Went | None

    @property
    def summary(self) -> Summary:
        """It without its content."""
        dead_letter = self.dead_letter
        size = len(dead_letter.key or b"") + len(dead_letter.value or b"")
        return Summary(
            dead_letter.topic,
            dead_letter.partition,
            dead_letter.offset,
            dead_letter.time_ms,
            dead_letter.reason,
            size,
            self.redriven,
        )


class Again(NamedTuple):
    """A dead letter and the record that it is sent again as."""

    dead_letter: DeadLetter
    entry: Entry


class DeadLetterSearch(Protocol):
    """The dead letters of one log, which is started, as are they."""

    async def newest(self, dead_letters_max: int) -> list[Summary]:
        """The latest dead letters by the time of their records, latest first.

        Raises:
            LogUnavailableError: they cannot be read.
        """
        ...

    async def page(self, wanted: Wanted, after: tuple[int, int] = (-1, -1), dead_letters_max: int = 500) -> list[Found]:
        """Dead letters in the order of their positions, up to `PAGE_BYTES_MAX`; empty when there are no more.

        Args:
            wanted: which.
            after: (partition, offset) of the last one of the page before.
            dead_letters_max: how many.

        Raises:
            LogUnavailableError: they cannot be read.
        """
        ...

    async def send(self, batch: Sequence[Again]) -> list[Went | None]:
        """Append dead letters in this order, and mark them; None for one that somebody else has sent meanwhile.

        Raises:
            LogUnavailableError: none was appended, or (AppendUncertainError) some may have been, and none is marked.
        """
        ...

    async def mark(self, sent: Sequence[tuple[DeadLetter, Went]]) -> None:
        """Mark dead letters that are in the log again without a mark.

        Raises:
            LogUnavailableError: they may not be marked.
        """
        ...
