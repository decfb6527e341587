"""`docs/adding-a-layout.md` is true: its layout passes every test, and nothing else is edited for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from engine.layouts.layout import Form, Indexing, Kind, Layout
from tests.docs.example_layout import DIRECTORY, NAME, PAGE, ROOT, write_files

TESTS: Final = (
    "tests/engine/layouts",
    "tests/engine/test_conversion.py",
    "tests/engine/proof/test_walk.py",
    "tests/engine/proof/test_digest.py",
    "tests/engine/cleaning/test_sweep.py",
    "tests/engine/commands/generic/test_scans.py",
)
"""Some of each kind that the page lists; the whole list takes minutes."""


def test_a_layout_is_added_without_touching_anything_else(tmp_path: Path) -> None:
    """With the page's folder in its place, its own tests, the contract and the tests of states pass."""
    folder = write_files(tmp_path)
    words = ["-q", "-p", "tests.docs.example_layout", "--layout", NAME, *TESTS, str(folder / "test_format.py")]
    variables = {name: value for name, value in os.environ.items() if not name.endswith("_LAYOUT")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**variables, DIRECTORY: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout
    assert re.search(r"\d\d\d passed", done.stdout)


def test_names_exist() -> None:
    """Every method, kind, form and file that the page names is there."""
    things = {*Layout.__annotations__, *Form.__members__, *Kind.__members__, *dir(Layout), *dir(Indexing), "Indexing"}
    methods = re.findall(r"`(\w+)`", PAGE.partition("| it decides |")[2].partition("\n\n")[0])
    paths = set(re.findall(r"`((?:engine|tests)/[\w/]+\.(?:py|md))`", PAGE))

    assert methods
    assert [] == [name for name in methods if name not in things]
    assert [] == [path for path in paths if "readable" not in path and not (ROOT / path).exists()]
