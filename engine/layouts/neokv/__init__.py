"""The `neokv` layout: `layout.py` says where records are, `codec.py` what is in a metadata value."""

from __future__ import annotations

from engine.layouts.neokv.layout import NeoKV

__all__ = ["NeoKV"]
