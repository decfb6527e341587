"""Commands on hashes, and on the times to live of their fields."""

from __future__ import annotations

from engine.commands.hashes import expiry, expiry_values, field_options, fields, notifications

__all__ = ["expiry", "expiry_values", "field_options", "fields", "notifications"]
