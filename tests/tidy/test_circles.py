"""No file of a package needs itself: its imports have no circle, those that only types need included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.tidy.source import PRODUCT, Module, modules

FILES = {module.name: module for module in modules(*PRODUCT)}


def imports(module: Module) -> Iterator[str]:
    """The files that a file imports, also in functions and under TYPE_CHECKING.

    `from a.b import c` is an import of the file `a/b/c.py` where there is one, else of `a/b.py` or `a/b/__init__.py`.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in FILES else node.module


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The names of one circle, the first one again at its end; empty when there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_circles_are_found() -> None:
    """A circle is found wherever it stands, and a file that two others import is none."""
    assert [] == circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    assert {"b", "c"} == set(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}))


def test_imports_for_types_count() -> None:
    """What stands under TYPE_CHECKING or in a function is an import, too; a name of a package counts as the package."""
    text = """
from typing import TYPE_CHECKING
from slotlog.log import Log, appends
if TYPE_CHECKING:
    from slotlog.clock import Clock
def later():
    import slotlog.errors
"""
    module = Module(FILES["slotlog.events"].path, "planted", text, ast.parse(text))

    assert ["slotlog.clock", "slotlog.errors", "slotlog.log", "slotlog.log.appends"] == sorted(imports(module))


@pytest.mark.parametrize("package", ["engine", "ingest", "ops", "resp", "slotlog"])
def test_no_file_needs_itself(package: str) -> None:
    """The files of a package can be put in an order in which each imports only those before it."""
    graph = {name: set(imports(file)) - {name} for name, file in FILES.items() if name.partition(".")[0] == package}

    assert [] == circle(graph)
