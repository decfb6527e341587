"""Commands on keys of any type."""

from __future__ import annotations

from engine.commands.generic import copies, dumps, keys, keyspace, objects, random_elements, scans, sorting

__all__ = ["copies", "dumps", "keys", "keyspace", "objects", "random_elements", "scans", "sorting"]
