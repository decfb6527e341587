"""The `neokv1` layout: strings as Phase 1 of NeoKV had them, all else as `neokv` does; FORMAT.md shows the bytes."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Layout
from engine.layouts.neokv1.layout import NeoKV1

__all__ = ["LAYOUTS", "NeoKV1"]

LAYOUTS: Final[tuple[type[Layout], ...]] = (NeoKV1,)
