"""Finds the Lua scripts that installed libraries carry: files, and texts in their Python, JavaScript and Go."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_CACHE: Final = Path(__file__).parents[2] / ".cache"
_PLACES: Final = ("applications/lib/*/site-packages", "outages/node/node_modules", "outages/go/modules")
_SUFFIXES: Final = frozenset({".lua", ".py", ".js", ".go"})
_BYTES_MAX: Final = 400_000
_CALL: Final = re.compile(r"redis\.p?call\s*\(")
_TEMPLATE: Final = re.compile(r"`((?:[^`\\$]|\\.|\$(?!\{))*)`", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([`\\$])")
_SINGLE: Final = re.compile(r"\b(KEYS|ARGV)\[(\d+)\]")
_OTHERS: Final = re.compile(r"(^|[/_.])(tests?|examples?|d|claude)([/_.]|$)")
"""Parts of a path: no library runs what is in these files."""


class Carried(NamedTuple):
    """One script.

    Attributes:
        place: its file, and the line where it begins.
        source: Lua.
        keys, args: the highest numbers that it names of each.
    """

    place: str
    source: bytes
    keys: int
    args: int


def carried_scripts() -> list[Carried]:
    """Each script once, in the order of its place."""
    found: dict[str, Carried] = {}
    for file in sorted(file for place in _PLACES for root in _CACHE.glob(place) for file in _files(root)):
        for line, source in _sources(file):
            found.setdefault(source, _carried(f"{file.relative_to(_CACHE)}:{line}", source))
    return list(found.values())


def _files(root: Path) -> Iterator[Path]:
    for file in root.rglob("*"):
        if file.suffix in _SUFFIXES and not _OTHERS.search(str(file.relative_to(root))) and file.is_file():
            yield file


def _sources(file: Path) -> Iterator[tuple[int, str]]:
    """The scripts in a file, each with its line."""
    if file.stat().st_size > _BYTES_MAX:
        return
    text = file.read_text(errors="replace")
    if not _CALL.search(text):
        return
    if file.suffix == ".lua":
        yield 1, text
    elif file.suffix == ".py":
        yield from ((line, found) for line, found in _python_texts(text) if _CALL.search(found))
    else:
        for match in _TEMPLATE.finditer(text):
            if _CALL.search(match[1]):
                source = _ESCAPED.sub(r"\1", match[1]) if file.suffix == ".js" else match[1]
                yield text.count("\n", 0, match.start()) + 1, source


def _python_texts(text: str) -> Iterator[tuple[int, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs: wrong escapes
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _carried(place: str, source: str) -> Carried:
    named = [(table, int(number)) for table, number in _SINGLE.findall(source)]
    highest = [max((number for table, number in named if table == wanted), default=0) for wanted in ("KEYS", "ARGV")]
    return Carried(place, source.encode(), *highest)
