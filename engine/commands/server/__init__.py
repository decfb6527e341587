"""Commands on databases, sessions and the partition itself."""

from __future__ import annotations

from engine.commands.server import partitions, sessions

__all__ = ["partitions", "sessions"]
