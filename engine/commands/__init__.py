"""Grammar and reply of every command, one file per type. Importing this package fills `engine.registry.SPECS`."""

from __future__ import annotations

from engine.commands import hashes, keys, lists, partitions, sets, string_changes, strings, zset_ranges, zsets

__all__ = ["hashes", "keys", "lists", "partitions", "sets", "string_changes", "strings", "zset_ranges", "zsets"]
