"""Registers the layout of docs/adding-a-layout.md for a whole session of pytest, as a plugin.

    SLOTLOG_TEST_EXAMPLE=DIR python -m pytest -p tests.docs.example_layout --layout readable tests/engine/layouts

It does what the page says that one does: DIR gets the page's folder, and is one more place of layouts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import engine.layouts

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "adding-a-layout.md").read_text()
NAME: Final = "readable"
FILES: Final = ("layout.py", "__init__.py", "FORMAT.md", "test_format.py")
"""Of the page's blocks, in their order."""

DIRECTORY: Final = "SLOTLOG_TEST_EXAMPLE"
"""The variable that names the directory."""

_BLOCK: Final = re.compile(r"```(?:python|markdown)\n(.*?)```", re.DOTALL)


def write_files(directory: Path) -> Path:
    """Write the page's folder into `directory`; returns it."""
    folder = directory / NAME
    folder.mkdir()
    for name, block in zip(FILES, _BLOCK.findall(PAGE), strict=True):
        (folder / name).write_text(block)
    return folder


if DIRECTORY in os.environ:  # at once: before the conftest modules, which have constants made of the layout
    engine.layouts.__path__.append(os.environ[DIRECTORY])
    engine.layouts.LAYOUTS.update(engine.layouts.find_layouts([os.environ[DIRECTORY]]))
