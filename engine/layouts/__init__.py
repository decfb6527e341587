"""Layouts: the form of keys and of what belongs to them on disk, chosen once for each state directory."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Layout
from engine.layouts.neokv.layout import NeoKV

LAYOUTS: Final[dict[str, type[Layout]]] = {NeoKV.name: NeoKV}
"""Every layout by the name that the state directory keeps."""


def make_layout(name: str, partition: int, partitions: int) -> Layout:
    """The layout of that name for one partition.

    Raises:
        KeyError: there is none of that name.
    """
    return LAYOUTS[name](partition, partitions)
