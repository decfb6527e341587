"""Layouts: the form of keys and metadata on disk, chosen once for each state directory."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Layout
from engine.layouts.neokv import NeoKV

LAYOUTS: Final[dict[str, type[Layout]]] = {NeoKV.name: NeoKV}
"""Every layout by the name that the state directory keeps."""
