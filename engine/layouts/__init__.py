"""Layouts: the form of keys and of what belongs to them on disk, chosen once for each state directory.

Each folder beside this file is a package with `LAYOUTS`, a tuple of the layouts in it. They are found by being there.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from engine.layouts.layout import Adopting, Layout

DEFAULT_LAYOUT: Final = "neokv"
"""The layout of a state for which none is named."""


def find_layouts(folders: Iterable[str]) -> dict[str, type[Layout]]:
    """The layouts of all packages in `folders`, by name, in the order of the packages' names.

    Args:
        folders: the places of this package, as its `__path__` has them.

    Raises:
        ImportError: a package has no `LAYOUTS`, or two layouts have one name.
    """
    found: dict[str, type[Layout]] = {}
    for package in sorted(each.name for each in iter_modules(folders) if each.ispkg):
        layouts = getattr(import_module(f"{__name__}.{package}"), "LAYOUTS", None)
        if layouts is None:
            raise ImportError(f"{__name__}.{package} is in the folder of layouts, and has no LAYOUTS")
        for layout in layouts:
            if layout.name in found:
                raise ImportError(f"two layouts have the name {layout.name}: one is in {__name__}.{package}")
            found[layout.name] = layout
    return found


LAYOUTS: Final[dict[str, type[Layout]]] = find_layouts(__path__)
"""Every layout by the name that the state directory keeps."""


def make_layout(name: str, partition: int, partitions: int) -> Layout:
    """The layout of that name for one partition.

    Raises:
        KeyError: there is none of that name.
    """
    return LAYOUTS[name](partition, partitions)


def takes_over(name: str, stored: str) -> bool:
    """Whether a state of the layout `stored` may go on in the layout `name`, in place."""
    if name == stored or name not in LAYOUTS:
        return False
    layout = make_layout(name, 0, 1)
    return isinstance(layout, Adopting) and layout.adopts == stored
