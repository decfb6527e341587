"""Every command: grammar and reply, one folder for each type.

Importing this package fills `engine.commands.registry`.
"""

from __future__ import annotations

from engine.commands import bitmaps, generic, geo, hashes, lists, scripting, server, sets, streams, strings, zsets

__all__ = ["bitmaps", "generic", "geo", "hashes", "lists", "scripting", "server", "sets", "streams", "strings", "zsets"]
