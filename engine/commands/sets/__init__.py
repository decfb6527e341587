"""Commands on sets."""

from __future__ import annotations

from engine.commands.sets import algebra, members

__all__ = ["algebra", "members"]
