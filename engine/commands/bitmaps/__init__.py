"""Commands on the bits of a string."""

from __future__ import annotations

from engine.commands.bitmaps import bitfields, bits, operations

__all__ = ["bitfields", "bits", "operations"]
