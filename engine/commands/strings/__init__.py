"""Commands on strings, including HyperLogLogs."""

from __future__ import annotations

from engine.commands.strings import changes, expiring, get_set, hyperloglog, lcs, notifications

__all__ = ["changes", "expiring", "get_set", "hyperloglog", "lcs", "notifications"]
