"""A usage line as a tree, so that arguments can be generated from it.

    "ZADD key [NX|XX] [CH] score member [score member ...]"

    Argument("key"), Optional((NX,), (XX,)), Optional((CH,)), Argument("score"), Argument("member"),
    Optional((score, member), repeats=True)

`<LEFT|RIGHT>` is a `Choice`, `<FROMMEMBER member|FROMLONLAT longitude latitude>` is `Either`. It is the notation of
`engine.commands.registry`; what it cannot read raises, so that a new usage line is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(r"\[|\]|\||\.\.\.|<|>|[^\s\[\]|<>]+")


class Literal(NamedTuple):
    """An upper-case word, written as it is."""

    word: str


class Argument(NamedTuple):
    """A lower-case word: a value of that kind."""

    word: str


class Optional(NamedTuple):
    """What stands in brackets: one of the alternatives or nothing; with `repeats` any number of times."""

    alternatives: tuple[Line, ...]
    repeats: bool = False


class Choice(NamedTuple):
    """Exactly one of these words."""

    words: tuple[str, ...]


class Either(NamedTuple):
    """Exactly one of the alternatives, which are more than words."""

    alternatives: tuple[Line, ...]


Node = Literal | Argument | Optional | Choice | Either
Line = tuple[Node, ...]


def parse(usage: str) -> Line:
    """The nodes of a usage line after the command's name.

    Raises:
        ValueError: brackets do not match, or `|` or `...` stands where this notation has none.
    """
    tokens = iter(_TOKEN.findall(usage)[1:])
    alternatives, repeats, closed = _parse(tokens)
    if closed or repeats or len(alternatives) > 1:
        raise ValueError(f"cannot be read: {usage}")
    return alternatives[0]


def arguments(line: Line) -> Iterator[str]:
    """The lower-case words of a line, those in brackets too."""
    for node in line:
        if isinstance(node, Argument):
            yield node.word
        elif isinstance(node, Optional | Either):
            for alternative in node.alternatives:
                yield from arguments(alternative)


def _parse(tokens: Iterator[str]) -> tuple[tuple[Line, ...], bool, bool]:
    """Alternatives up to the closing bracket or the end; whether they repeat; whether there was a bracket."""
    alternatives: list[list[Node]] = [[]]
    repeats = False
    for token in tokens:
        if token in "]>":
            return tuple(map(tuple, alternatives)), repeats, True
        if token == "|":
            alternatives.append([])
        elif token == "...":
            repeats = True
        elif token in "[<":
            inner, inner_repeats, closed = _parse(tokens)
            if not closed:
                raise ValueError("a bracket is not closed")
            alternatives[-1].append(Optional(inner, inner_repeats) if token == "[" else _choice(inner))
        else:
            alternatives[-1].append(Literal(token) if token.isupper() else Argument(token))
    return tuple(map(tuple, alternatives)), repeats, False


def _choice(alternatives: tuple[Line, ...]) -> Node:
    words = tuple(line[0].word for line in alternatives if len(line) == 1 and isinstance(line[0], Literal))
    return Choice(words) if len(words) == len(alternatives) else Either(alternatives)
