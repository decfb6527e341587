"""A dead letter, and the protocol of a dead-letter store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from slotlog.log.log import Headers, LogRecord

TRUNCATED: Final = "slotlog.truncated"
"""The header that says of a dead letter that it was cut."""


class DeadLetter(NamedTuple):
    """A record that cannot be applied.

    Attributes:
        topic, partition, offset, time_ms: where and when it stands in its log.
        reason: why it cannot be applied.
        key, value, headers: what it was, byte for byte (header names that are not UTF-8: escaped).
    """

    topic: str
    partition: int
    offset: int
    time_ms: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def letter_of(topic: str, partition: int, record: LogRecord, reason: str, headers: Headers) -> DeadLetter:
    """The dead letter of a record of the log."""
    offset, time_ms, key, value = record
    return DeadLetter(topic, partition, offset, time_ms, reason, key, value, headers)


class DeadLetters(Protocol):
    """A store of dead letters."""

    @property
    def concerns(self) -> tuple[str, ...]:
        """Settings of the place with which a start would be refused, each with what to do, as `watch` found them."""
        ...

    async def start(self) -> None:
        """Make the store ready.

        Raises:
            LogUnavailableError, LogMismatchError: it cannot be.
        """
        ...

    async def store(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Store `dead_letters`; they are durable on return. Storing one again changes nothing that counts.

        Raises:
            LogUnavailableError: they may not be; store them again.
        """
        ...

    async def read(self, dead_letters_max: int = 1000) -> list[DeadLetter]:
        """The first dead letters, in the order of their positions (embedded) or of their arrival (Kafka)."""
        ...

    async def offsets(self, partition: int) -> set[int] | None:
        """The offsets of the dead letters of a partition that are kept; None where only reading them all would tell."""
        ...

    async def watch(self, seconds: float) -> None:
        """Look every so many seconds whether dead letters are kept there for ever, until cancelled; see `concerns`."""
        ...

    async def close(self) -> None:
        """Close its own connections, not those of the log."""
        ...
