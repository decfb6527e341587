"""Commands on positions, which are stored as members of a sorted set."""

from __future__ import annotations

from engine.commands.geo import positions, search, search_options

__all__ = ["positions", "search", "search_options"]
