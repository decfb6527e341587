"""Commands on streams, and on their consumer groups."""

from __future__ import annotations

from engine.commands.streams import claims, deleting, entries, group_reading, groups, info, pending, ranges, reading

__all__ = ["claims", "deleting", "entries", "group_reading", "groups", "info", "pending", "ranges", "reading"]
