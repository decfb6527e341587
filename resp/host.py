"""The protocol of the process that hosts the RESP server. `ops` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


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

    async def reload_and_compare(self) -> str:
        """Replay the log into another directory and hold the two states against each other.

        Returns:
            Empty when they are equal, else what differs.
        """
        ...
