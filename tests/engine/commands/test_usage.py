"""The one parser of usage lines: its tree, and what follows from it."""

from __future__ import annotations

import pytest

from engine.commands.usage import (
    Argument,
    Choice,
    KeyPlaces,
    Literal,
    Optional,
    arguments,
    arity,
    key_options,
    key_places,
    parse,
)
from slotlog.shared.signature import ANY_NUMBER


def test_usage_lines_are_read() -> None:
    """Optional, alternative and repeated words come out as the line has them."""
    line = parse("key [NX|XX] [EX seconds|KEEPTTL] score member [score member ...]")

    assert (
        Argument("key"),
        Optional(((Literal("NX"),), (Literal("XX"),))),
        Optional(((Literal("EX"), Argument("seconds")), (Literal("KEEPTTL"),))),
        Argument("score"),
        Argument("member"),
        Optional(((Argument("score"), Argument("member")),), repeats=True),
    ) == line
    assert () == parse("")


@pytest.mark.parametrize("words", ["source <LEFT|RIGHT>", "source LEFT|RIGHT"])
def test_choice_of_words_needs_no_brackets(words: str) -> None:
    """A choice of words is one node, in angle brackets or without."""
    assert (Argument("source"), Choice(((Literal("LEFT"),), (Literal("RIGHT"),)))) == parse(words)


def test_choices_stand_in_each_other() -> None:
    """A choice of more than words holds lines, which hold choices."""
    units = Choice(((Literal("M"),), (Literal("KM"),)))
    box = (Literal("BYBOX"), Argument("width"), units)

    assert (Choice((box, (Literal("ALL"),))),) == parse("<BYBOX width <M|KM>|ALL>")


@pytest.mark.parametrize(
    "words", ["key]", "[key", "key ...", "a|b", "[a>", "<a ...>", "[]", "[a|]", "[a ... b]", "LEFT| RIGHT"]
)
def test_unknown_notation_is_refused(words: str) -> None:
    """A usage line that is not in the notation is an error, not a guess."""
    with pytest.raises(ValueError, match=r"bracket is not closed|cannot be read"):
        parse(words)


def test_lower_case_words_are_the_arguments() -> None:
    """Those in brackets and choices are among them, literals are not."""
    assert ["key", "count", "width", "m"] == list(arguments(parse("key [COUNT count] <BYBOX width|ALL> [m ...]")))


@pytest.mark.parametrize(
    ("words", "least_and_most"),
    [
        ("", (0, 0)),
        ("key", (1, 1)),
        ("key [count]", (1, ANY_NUMBER)),
        ("key LEFT|RIGHT", (2, 2)),
        ("<BYBOX width height|ALL> key", (2, 4)),
        ("<A b [c]|D>", (1, ANY_NUMBER)),
    ],
)
def test_arity(words: str, least_and_most: tuple[int, int]) -> None:
    """Of a choice the shortest counts, and the longest; what is in brackets has no upper bound."""
    assert least_and_most == arity(parse(words))


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("pattern", KeyPlaces()),
        ("key value", KeyPlaces(0, 1, keys_end=1)),
        ("source destination", KeyPlaces(0, 1, many_keys=True, keys_end=2)),
        ("operation destkey key [key ...]", KeyPlaces(2, 1, many_keys=True)),
        ("key value [key value ...]", KeyPlaces(0, 2, many_keys=True)),
        ("key [key ...] timeout", KeyPlaces(0, 1, many_keys=True, keys_end=-1)),
        ("destination [key [key ...]]", KeyPlaces(0, 1, many_keys=True)),
        ("destination numkeys key [key ...]", KeyPlaces(0, 1, many_keys=True, key_count=1)),
    ],
)
def test_key_places(words: str, places: KeyPlaces) -> None:
    """Where keys stand follows from the words that stand for keys, whatever is in brackets between them."""
    assert places == key_places(parse(words))


def test_options_are_of_interest_when_one_names_a_key() -> None:
    """Then each is known with how many arguments it takes; options within options, too."""
    words = "key [BY pattern] [LIMIT offset count [ANY]] [STORE destination]"

    expected = {b"BY": (1, False), b"LIMIT": (2, False), b"ANY": (0, False), b"STORE": (1, True)}
    assert expected == key_options(parse(words))
    assert {} == key_options(parse("key [BY pattern] [LIMIT offset count]"))
