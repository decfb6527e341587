"""Layouts are found by being in a folder of `engine/layouts/`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine.layouts
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS, find_layouts, make_layout
from engine.layouts.records import counter_families, metadata_families, order_families

FOLDERS = [Path(folder) for folder in engine.layouts.__path__]
OURS = [name for name, layout in LAYOUTS.items() if layout.__module__.startswith("engine.")]
"""Those of the product."""

MODULE = """
from engine.layouts.neokv import NeoKV
class One(NeoKV):
    name = {name!r}
LAYOUTS = (One,)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder of layouts, in which Python looks for them as well."""
    monkeypatch.setattr(engine.layouts, "__path__", [*engine.layouts.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def add(folder: Path, package: str, text: str) -> None:
    """Put a package into the folder."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(text)


def test_each_folder_is_found() -> None:
    """Each folder beside the registry has layouts, and the names of folders give the order."""
    folders = {path.parent.name: path.parent for folder in FOLDERS for path in folder.glob("*/__init__.py")}
    found = [LAYOUTS[name].__module__.split(".")[2] for name in find_layouts(engine.layouts.__path__)]

    assert sorted(folders) == list(dict.fromkeys(found))
    assert DEFAULT_LAYOUT in OURS
    assert [] == [name for name, folder in folders.items() if not (folder / "FORMAT.md").is_file()]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_has_the_name_under_which_it_stands(name: str) -> None:
    """What a state directory keeps leads to the class that says so itself."""
    assert name == make_layout(name, 1, 3).name


def test_a_new_folder_is_enough(folder: Path) -> None:
    """A package with layouts is found where it lies; a module beside it is none."""
    add(folder, "another", MODULE.format(name="one"))
    (folder / "codec.py").touch()

    assert [*find_layouts([str(folder)])] == ["one"]
    assert sorted([*OURS, "one"]) == sorted(find_layouts(engine.layouts.__path__))


def test_a_folder_without_layouts_is_refused(folder: Path) -> None:
    """It is named, never passed over: a layout whose folder is half copied would be missing."""
    add(folder, "another", "")

    with pytest.raises(ImportError, match=r"engine\.layouts\.another is in the folder of layouts, and has no LAYOUTS"):
        find_layouts([str(folder)])


def test_two_layouts_with_one_name_are_refused(folder: Path) -> None:
    """Which of them a state is of could not be told."""
    add(folder, "another", MODULE.format(name=DEFAULT_LAYOUT))

    with pytest.raises(ImportError, match=f"two layouts have the name {DEFAULT_LAYOUT}"):
        find_layouts(engine.layouts.__path__)


def test_families_of_order_alone() -> None:
    """A column family has small memtables where it holds the order of sorted sets and nothing else."""
    order = {"neokv": {"zset_score", "zset_rank"}, "kvrocks": {"zset_score"}, "camellia-v0": set[str]()}

    assert order == {name: order_families(LAYOUTS[name]) for name in order}


def test_families_of_counters_alone() -> None:
    """A column family has values that take each other's place where it holds rank counts and nothing else."""
    counters = {"neokv": {"zset_rank"}, "kvrocks": set[str](), "camellia-v0": set[str]()}

    assert counters == {name: counter_families(LAYOUTS[name]) for name in counters}


def test_families_of_metadata() -> None:
    """Memtables have a filter where metadata is, alone or with other records."""
    metadata = {"neokv": {"metadata"}, "kvrocks": {"metadata"}, "camellia-v1": {"camellia"}}

    assert metadata == {name: metadata_families(LAYOUTS[name]) for name in metadata}
