"""First lines of docstrings are short, plain sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.source import EVERYTHING, PRODUCT, modules

WORDS_MAX = 20

QUESTION_WORDS = {"how", "what", "when", "where", "whether", "which", "who", "whose", "why"}

PRIVATE_WORDS = {
    "door": "a method, or the check at an entrance",
    "doors": "methods, or the checks at an entrance",
    "kin": "relatives",
    "lane": "write pipeline",
    "seat": "owned partition",
    "whoever": "a caller, a client, anybody",
}
"""Words of nobody's field, and what to write instead."""

BREAK = re.compile(r"[.;:] ")
WORD = re.compile(r"[a-z]+")


def faults(line: str, *, statement: bool) -> list[str]:
    """What is wrong with a first line. A statement begins with a noun or a verb, not with a question word."""
    first = BREAK.split(line)[0].split()
    said = WORD.findall(line.lower())
    found = []
    if len(first if not statement else line.split()) > WORDS_MAX:
        found.append(f"more than {WORDS_MAX} words")
    if statement and said[:1] and said[0] in QUESTION_WORDS:
        found.append(f"begins with {said[0]}")
    if not line.endswith((".", ":")):
        found.append("ends without a full stop")
    return found + [f"{word}: write {PRIVATE_WORDS[word]}" for word in said if word in PRIVATE_WORDS]


def public(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public classes, functions and methods of a module."""
    scopes: list[ast.Module | ast.ClassDef] = [tree]
    while scopes:
        for node in scopes.pop().body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                yield node
                if isinstance(node, ast.ClassDef):
                    scopes.append(node)


def first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The first line of a docstring; empty where there is none."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


@pytest.mark.parametrize(
    ("line", "statement", "expected"),
    [
        ("Applies records in order.", True, []),
        ("What a command did.", True, ["begins with what"]),
        ("How many there are.", False, []),
        ("word " * WORDS_MAX + "word.", True, ["more than 20 words"]),
        ("Short: " + "word " * WORDS_MAX + "word.", False, []),
        ("word " * WORDS_MAX + "word.", False, ["more than 20 words"]),
        ("No end", True, ["ends without a full stop"]),
        ("The lane of a partition.", True, ["lane: write write pipeline"]),
    ],
)
def test_faults_of_first_lines_are_found(line: str, expected: list[str], *, statement: bool) -> None:
    """Length, question words, missing full stops and private words are each named."""
    assert expected == faults(line, statement=statement)


def test_first_lines_of_modules() -> None:
    """Each module begins with a statement of at most twenty words."""
    found = [
        f"{module.place}: {fault}"
        for module in modules(*EVERYTHING)
        if (line := first_line(module.tree))
        for fault in faults(line, statement=True)
    ]

    assert [] == found


def test_first_lines_of_public_definitions() -> None:
    """Each public class begins with a statement, and no first sentence of the product has more than twenty words."""
    found = [
        f"{module.place}:{node.lineno} {node.name}: {fault}"
        for module in modules(*PRODUCT)
        for node in public(module.tree)
        if (line := first_line(node))
        for fault in faults(line, statement=isinstance(node, ast.ClassDef))
    ]

    assert [] == found
