"""The protocol of the process that hosts the RESP server. `ops` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from engine.values.replies import Reply


class Host(Protocol):
    """The process around the server."""

    @property
    def version(self) -> str:
        """Of slotlog."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Every setting of the process by name, secrets left out, for `CONFIG GET`."""
        ...

    def stop(self) -> None:
        """End the process in good order, as SIGTERM does."""
        ...

    def disk_bytes(self) -> int:
        """Size of the state on disk, of all owned partitions."""
        ...

    async def read_past(self, partition: int, moment: bytes, name: bytes, args: list[bytes], db: int) -> Reply:
        """The reply of a reading command on the state of its partition as it was at a moment.

        Raises:
            CommandError: its own error, or why there is no such state.
        """
        ...

    async def read_history(
        self, partition: int, key: bytes, db: int, count: int, from_offset: int, until: bytes | None, *, values: bool
    ) -> Reply:
        """The last `count` events of a key between an offset and a moment, each as a map.

        Raises:
            CommandError: why there is no such history.
        """
        ...

    def check_moment(self, moment: bytes) -> None:
        """Refuse what is no moment.

        Raises:
            CommandError: it is neither an offset nor a time.
        """
        ...

    async def reload_and_compare(self) -> str:
        """Replay the log into another directory and hold the two states against each other.

        Returns:
            Empty when they are equal, else what differs.
        """
        ...
