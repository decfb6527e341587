"""The `neokv` layout: `layout.py` says where records are, `codec.py` what metadata values are; FORMAT.md shows both."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Layout
from engine.layouts.neokv.layout import NeoKV

__all__ = ["LAYOUTS", "NeoKV"]

LAYOUTS: Final[tuple[type[Layout], ...]] = (NeoKV,)
