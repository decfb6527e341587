"""The repository's own Python files, parsed once: what the tests of this folder look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT = ("engine", "slotlog", "ingest", "resp", "ops")
EVERYTHING = (*PRODUCT, "tests", "benchmarks", "dashboards")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One file: where it is, what it is imported as, what it says."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """Its path from the root of the repository, for messages."""
        return str(self.path.relative_to(ROOT))


@cache
def modules(*packages: str) -> tuple[Module, ...]:
    """All modules of these top-level packages, by path."""
    return tuple(_load(path) for package in packages for path in sorted((ROOT / package).rglob("*.py")))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def imported_names(tree: ast.AST) -> set[str]:
    """Dotted names that the imports in `tree` may stand for: `from a.b import c` gives `a.b` and `a.b.c`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@cache
def _load(path: Path) -> Module:
    text = path.read_text()
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return Module(path, name, text, ast.parse(text, filename=str(path)))
