"""Commands on lists."""

from __future__ import annotations

from engine.commands.lists import ends, moves, values

__all__ = ["ends", "moves", "values"]
