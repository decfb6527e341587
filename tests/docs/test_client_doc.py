"""`docs/client.md` is true: its programs print what it shows, and it names the whole interface."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import slotlog
import slotlog.log.kafka.settings
import slotlog.producer
import slotlog.sealing

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def test_programs_print_what_the_page_shows(tmp_path: Path) -> None:
    """Run one after the other in one directory, each program prints the text below it."""
    programs = re.findall(r"^```python\n(.*?)^```\n\nIt prints:\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert PAGE.count("```python") == len(programs) == 4

    for program, shown in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (shown, 0, "") == (done.stdout, done.returncode, done.stderr)


@pytest.mark.parametrize(
    "module", [slotlog.producer, slotlog.sealing, slotlog.log.kafka.settings], ids=lambda module: module.__name__
)
def test_docstrings_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """The examples in the docstrings of the interface print what they show."""
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(module)

    assert (0, True) == (failed, tried > 0)


def test_every_public_name_is_on_the_page() -> None:
    """What a service may import is explained, but for the types of what it is given."""
    given = {"Log", "RecordPosition"}

    assert [] == [name for name in slotlog.__all__ if name not in given and f"{name}" not in PAGE]


def test_public_names_are_those_that_are_typed() -> None:
    """The package gives at run time what type checkers see, each name once, in order."""
    tree = ast.parse(Path(slotlog.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = [alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert sorted(imported) == sorted(slotlog.__all__) == sorted(dir(slotlog))
    assert all(getattr(slotlog, name).__name__ == name for name in slotlog.__all__)
