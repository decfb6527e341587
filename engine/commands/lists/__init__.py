"""Commands on lists."""

from __future__ import annotations

from engine.commands.lists import ends, moves, notifications, values

__all__ = ["ends", "moves", "notifications", "values"]
