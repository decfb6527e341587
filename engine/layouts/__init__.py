"""What a key and a metadata value look like on disk: one file per layout, chosen once per state directory."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Layout
from engine.layouts.neokv import NeoKV

LAYOUTS: Final[dict[str, type[Layout]]] = {NeoKV.name: NeoKV}
"""Every layout by the name that the state directory keeps."""
