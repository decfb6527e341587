"""Classes and modules are named by the terms of the glossary in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import pytest

from tests.tidy.source import EVERYTHING, PRODUCT, ROOT, modules

TERMS_MAX = 40

RETIRED = {
    "beside": "local appends",
    "cell": "pending reply",
    "lane": "write pipeline",
    "letter": "dead letter",
    "quick": "fast path",
    "seat": "owned partition",
    "seldom": "rate-limited log line",
    "spent": "deleted range",
    "spread": "all partitions",
    "touched": "modified",
}
"""Words that classes and modules had before, and the term of each."""

OTHER_MEANINGS = {("cell", "engine.values.geo.geohash"): "a cell of a geohash"}
"""Where a retired word is the term for another thing."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+")


class Term(NamedTuple):
    """One row of the glossary."""

    name: str
    meaning: str
    code: str


def glossary() -> list[Term]:
    """The rows of the table, without its head."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert 1 == page.count("\n## Glossary\n")
    section = page.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    return [Term(*row) for row in re.findall(r"^\| (.+?) \| (.+?) \| ?(.*?) ?\|$", section, re.MULTILINE)][1:]


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case and singular."""
    return [word.lower().removesuffix("s") for word in WORD.findall(name)]


def retired_in(name: str) -> set[str]:
    """The retired words that stand in a name; a letter is none where the word before it is `dead`."""
    found = words(name)
    return {
        word
        for at, word in enumerate(found)
        if word in RETIRED and not (word == "letter" and at and found[at - 1] == "dead")
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Seat", {"seat"}),
        ("_WatchCell", {"cell"}),
        ("LocalLetters", {"letter"}),
        ("KafkaDeadLetters", set()),
        ("dead_letters", set()),
        ("RESPLane", {"lane"}),
        ("lane_bounds", {"lane"}),
        ("Planet", set()),
        ("Cells2", {"cell"}),
    ],
)
def test_retired_words_are_found_in_names(name: str, expected: set[str]) -> None:
    """Whole words count, in both spellings of names, singular and plural."""
    assert expected == retired_in(name)


def test_no_retired_word_comes_back() -> None:
    """No class and no module has a word for which there is a term; the message says which."""
    names = [
        (module.name, name)
        for module in modules(*EVERYTHING)
        for name in (
            *module.name.split("."),
            *(node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)),
        )
    ]
    found = sorted(
        {
            f"{place}: {name} has the word {word!r}, the term is {RETIRED[word]!r}"
            for place, name in names
            for word in retired_in(name)
            if (word, place) not in OTHER_MEANINGS
        }
    )

    assert [] == found


def test_other_meanings_are_in_use() -> None:
    """Each exception names a module that has a class with that word."""
    used = {
        (word, module.name)
        for module in modules(*EVERYTHING)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        for word in retired_in(node.name)
    }

    assert OTHER_MEANINGS.keys() == used


def test_glossary_is_short() -> None:
    """There are at most forty terms, in the order of the alphabet, each explained in one sentence."""
    terms = glossary()
    names = [term.name for term in terms]

    assert 0 < len(terms) <= TERMS_MAX
    assert sorted(set(names)) == names
    assert [] == [term.name for term in terms if not re.fullmatch(r"[A-Z].*[^.]\.", term.meaning)]
    assert [] == [term.name for term in terms if re.search(r"[.!?] [A-Z]", term.meaning)]


def test_glossary_names_classes() -> None:
    """Each name in its last column is a class of the product."""
    classes = {
        node.name for module in modules(*PRODUCT) for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    }
    named = [(term.name, re.fullmatch(r"`(\w+)`", term.code)) for term in glossary() if term.code]

    assert [] == [name for name, code in named if code is None or code[1] not in classes]


def test_retired_words_lead_to_terms() -> None:
    """What replaces a retired word is in the glossary, or is a plain word."""
    plain = {"fast path", "modified"}

    assert set() == set(RETIRED.values()) - {term.name for term in glossary()} - plain
