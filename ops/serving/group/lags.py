"""Keeps how far a worker's states are behind their owners, or behind the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ingest.applying.consumer import Consumer
from ingest.membership import Role
from ops.config import Settings
from ops.state.opening.directories import applied_to, state_directories

_UNKNOWN_EVENTS: Final = 1 << 40


class GroupLags:
    """The lags of one worker's states.

    Args:
        consumer: applies the partitions.
        lag_of: how far a partition is behind the log, as it was seen last; None: not seen yet.
    """

    def __init__(self, consumer: Consumer, lag_of: Callable[[int], int | None]) -> None:
        self._consumer = consumer
        self._lag_of = lag_of
        self._owner_offsets: dict[int, int] = {}
        self._left_at: dict[int, int] = {}  # positions of states that are here and not applied

    async def look_at_disk(self, settings: Settings) -> None:
        """Find the states that are here, before anything is asked."""

        def look() -> dict[int, int]:
            there = [each for each in state_directories(settings.data) if each < settings.partitions]
            found = {partition: applied_to(settings, partition) for partition in there}
            return {partition: offset for partition, offset in found.items() if offset is not None}

        self._left_at = await asyncio.to_thread(look)

    @property
    def there(self) -> set[int]:
        """The partitions of which there is a state here."""
        return {*self._left_at, *self._consumer.partitions}

    def owner_at(self, partition: int, offset: int) -> None:
        """Note that a partition's owner has applied everything before an offset."""
        self._owner_offsets[partition] = offset
        self.tell(partition)

    def tell(self, partition: int) -> None:
        """Let a partition know how far its owner is, as far as that was heard."""
        owned = self._consumer.every[partition]
        owned.owner_offset = max(owned.owner_offset, self._owner_offsets.get(partition, 0))

    def owner_was_at(self, partition: int) -> int:
        """Before which offset a partition's owner has applied everything, as far as that was heard; 0: it was not."""
        return self._owner_offsets.get(partition, 0)

    def left(self, partition: int, next_offset: int) -> None:
        """Note that a partition is not applied any more, and its state is left at an offset."""
        self._left_at[partition] = next_offset

    def applied_again(self, partition: int) -> None:
        """Note that a partition is applied now."""
        self._left_at.pop(partition, None)

    def behind(self, partition: int) -> int:
        """By how many events a state is behind its owner's, or where it is the owner's, behind the log."""
        owned = self._consumer.every[partition]
        if owned.role is Role.OWNER:
            lag = self._lag_of(partition)
            return _UNKNOWN_EVENTS if lag is None else lag
        position = owned.worker.machine.next_offset if owned.worker.is_open else self._left_at.get(partition)
        known = self._owner_offsets.get(partition)
        return _UNKNOWN_EVENTS if position is None or known is None else max(0, known - position)
