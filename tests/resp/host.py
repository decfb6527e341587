"""A process around a server under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Process:
    """An `resp.host.Host` around nothing."""

    version = "0"
    settings: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        """Note it."""
        self.stopped = True

    def disk_bytes(self) -> int:
        """Nothing is on disk."""
        return 0

    async def read_past(self, partition: int, moment: bytes, name: bytes, args: list[bytes], db: int) -> Any:
        """What was asked for."""
        return [partition, moment, name, *args, db]

    async def read_history(self, *what: Any, values: bool) -> Any:
        """What was asked for."""
        return [*what, int(values)]

    def check_moment(self, moment: bytes) -> None:
        """Every moment is one."""

    async def reload_and_compare(self) -> str:
        """Nothing differs."""
        return ""
