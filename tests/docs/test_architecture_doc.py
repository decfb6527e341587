"""`docs/architecture.md` names what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize(
    ("folder", "begin", "end"),
    [
        ("engine", "In `engine/`", "In `ingest/`"),
        ("ingest", "In `ingest/`", "In `ops/`"),
        ("ops", "In `ops/`", "##"),
    ],
)
def test_modules_exist(folder: str, begin: str, end: str) -> None:
    """Every file and folder that the list of a package's modules names is in that package."""
    section = PAGE.partition(begin)[2].partition(end)[0]
    names = re.findall(r"`([a-z_]+(?:\.py|/))`", section)
    assert names

    assert [name for name in names if not list((ROOT / folder).rglob(name.rstrip("/")))] == []


def test_first_files_exist() -> None:
    """Every file of the first five minutes is there, with the class or function that the page names in it."""
    section = PAGE.partition("## Five minutes")[2].partition("## Folders")[0]
    places = re.findall(r"`([\w/]+\.py)`, `(?:\w+\.)?(\w+)`", section)
    files = re.findall(r"`((?:engine|ingest|ops)/[\w/]+\.(?:py|md))`", section)
    assert len(places) >= 6

    assert [] == [name for name in files if not (ROOT / name).is_file()]
    assert [] == [
        name for path, name in places if not re.search(rf"\b(?:def|class) {name}\b", (ROOT / path).read_text())
    ]


def test_engine_is_described_whole() -> None:
    """Every module of the engine's top folder is in the list."""
    section = PAGE.partition("In `engine/`")[2].partition("In `ingest/`")[0]
    modules = [path.name for path in (ROOT / "engine").glob("*.py") if path.name != "__init__.py"]

    assert [name for name in sorted(modules) if f"`{name}`" not in section] == []
