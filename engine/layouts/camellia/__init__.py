"""The `camellia` layouts: `keys.py` has the bytes of keys, `codec.py` of metadata values; FORMAT.md shows both."""

from __future__ import annotations

from typing import Final

from engine.layouts.camellia.layout import CamelliaV0, CamelliaV1
from engine.layouts.layout import Layout

__all__ = ["LAYOUTS", "CamelliaV0", "CamelliaV1"]

LAYOUTS: Final[tuple[type[Layout], ...]] = (CamelliaV0, CamelliaV1)
