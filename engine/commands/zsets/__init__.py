"""Commands on sorted sets."""

from __future__ import annotations

from engine.commands.zsets import algebra, members, ranges, removals

__all__ = ["algebra", "members", "ranges", "removals"]
