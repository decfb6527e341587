"""Parses usage lines: a syntax tree, from which the number of arguments and the places of keys follow.

    line     = name {item}
    item     = word                 lower case: an argument
             | WORD                 upper case: a literal
             | "[" choice "]"       may be left out; with "..." at its end, repeated
             | "<" choice ">"       exactly one of the alternatives
             | WORD "|" WORD …      the same without brackets: LEFT|RIGHT
    choice   = {item} {"|" {item}}

    "ZADD key [NX|XX] [CH] score member [score member ...]"

    Argument("key"), Optional(((Literal("NX"),), (Literal("XX"),))), Optional(((Literal("CH"),),)), Argument("score"),
    Argument("member"), Optional(((Argument("score"), Argument("member")),), repeats=True)

What the notation does not have is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from slotlog.shared.signature import ANY_NUMBER

KEY_WORDS: Final = ("key", "newkey", "source", "destination")
"""The words of usage lines that stand for a key."""

_SYMBOLS: Final = "[]<>|"


class Literal(NamedTuple):
    """An upper-case word, written as it is."""

    word: str


class Argument(NamedTuple):
    """A lower-case word: a value of that kind."""

    word: str


class Optional(NamedTuple):
    """A part in brackets: one of the alternatives or nothing; with `repeats` any number of times."""

    alternatives: tuple[Line, ...]
    repeats: bool = False


class Choice(NamedTuple):
    """Exactly one of the alternatives."""

    alternatives: tuple[Line, ...]


Node = Literal | Argument | Optional | Choice
Line = tuple[Node, ...]


KEYS_AND_IDS: Final[Line] = (
    Argument("key"),
    Optional(((Argument("key"),),), repeats=True),
    Argument("id"),
    Optional(((Argument("id"),),), repeats=True),
)
"""`key [key ...] id [id ...]`: as many ids as keys."""


class KeyPlaces(NamedTuple):
    """The places of keys among the arguments; see `slotlog.shared.signature.Signature`."""

    first_key: int = -1
    key_step: int = 0
    many_keys: bool = False
    keys_end: int = 0
    key_count: int = -1
    keys_optional: bool = False
    keyword: bytes = b""


@cache
def parse(words: str) -> Line:
    """The nodes of a usage line without the command's name. Many commands share theirs, such as `key`.

    Raises:
        ValueError: brackets do not match, or `|` or `...` stands where the notation has none.
    """
    alternatives, repeats, end = _choice(iter(_tokens(words)))
    if end or repeats or len(alternatives) > 1:
        raise ValueError(f"cannot be read: {words}")
    return alternatives[0]


def arguments(line: Line) -> Iterator[str]:
    """The lower-case words of a line, those in brackets too."""
    for node in line:
        if isinstance(node, Argument):
            yield node.word
        elif isinstance(node, Optional | Choice):
            for alternative in node.alternatives:
                yield from arguments(alternative)


@cache
def arity(line: Line) -> tuple[int, int]:
    """The least and the most arguments that a line allows."""
    least, most = 0, 0
    for node in line:
        if isinstance(node, Optional):
            most = ANY_NUMBER
        elif isinstance(node, Choice):
            widths = [arity(alternative) for alternative in node.alternatives]
            least += min(width[0] for width in widths)
            most += max(width[1] for width in widths)
        else:
            least, most = least + 1, most + 1
    return least, min(most, ANY_NUMBER)


@cache
def key_places(line: Line) -> KeyPlaces:
    """Where the keys stand that are no option's."""
    required = [node for node in line if not isinstance(node, Optional)]
    keyword = _keyword(line)
    if keyword is not None:
        return KeyPlaces(required.index(keyword), 1, many_keys=True, keyword=keyword.word.encode())
    at = [place for place, node in enumerate(required) if isinstance(node, Argument) and node.word in KEY_WORDS]
    behind, repeated = next(_repeated_keys(line), (0, None))
    counter = Argument("numkeys")
    if not at and repeated is not None and counter in required:
        count = required.index(counter)
        return KeyPlaces(count + 1, 1, many_keys=True, key_count=count, keys_optional=True)
    if not at:
        return KeyPlaces()
    step = 1 if repeated is None else len(repeated)
    if counter in required:
        return KeyPlaces(at[0], step, many_keys=True, key_count=required.index(counter))
    if repeated is not None:
        return KeyPlaces(at[0], step, many_keys=True, keys_end=-behind)
    return KeyPlaces(at[0], 1, len(at) > 1, at[-1] + 1)


@cache
def key_options(line: Line) -> Mapping[bytes, tuple[int, bool]]:
    """By its literal, how many arguments follow each option, and whether they are a key; empty unless one is."""
    found = dict(_options(line))
    return found if any(is_key for _, is_key in found.values()) else {}


def _optional(line: Line) -> Iterator[Optional]:
    """What may be left out, that within others too."""
    for node in line:
        if isinstance(node, Optional):
            yield node
            for alternative in node.alternatives:
                yield from _optional(alternative)


def _repeated_keys(line: Line) -> Iterator[tuple[int, Line]]:
    """What is repeated and begins with a key, such as `key value`, and how many arguments the line requires behind."""
    for place, outer in enumerate(line, 1):
        for node in _optional((outer,)):
            if node.repeats and node.alternatives[0][0] == Argument("key"):
                yield arity(line[place:])[0], node.alternatives[0]


def _keyword(line: Line) -> Literal | None:
    """The literal that stands in front of `key [key ...] id [id ...]`."""
    for literal, *behind in zip(line, line[1:], line[2:], line[3:], line[4:], strict=False):
        if isinstance(literal, Literal) and behind == list(KEYS_AND_IDS):
            return literal
    return None


def _options(line: Line) -> Iterator[tuple[bytes, tuple[int, bool]]]:
    for node in _optional(line):
        for alternative in node.alternatives:
            if isinstance(alternative[0], Literal):
                values = [each.word for each in alternative[1:] if isinstance(each, Argument)]
                yield alternative[0].word.encode(), (len(values), any(value in KEY_WORDS for value in values))


# ---------------------------------------------------------------------- reading


def _tokens(words: str) -> list[str]:
    """Words, brackets, `|` and `...`."""
    if "|" in words:
        words = " ".join(_bracketed(words.split(" ")))
    for symbol in _SYMBOLS:
        words = words.replace(symbol, f" {symbol} ")
    return words.split()


def _bracketed(words: list[str]) -> Iterator[str]:
    """The words, a choice such as `LEFT|RIGHT` that stands outside of brackets in brackets."""
    depth = 0
    for word in words:
        depth += word.count("[") + word.count("<")
        yield f"<{word}>" if depth == 0 and "|" in word and word.isupper() else word
        depth -= word.count("]") + word.count(">")


def _choice(tokens: Iterator[str]) -> tuple[tuple[Line, ...], bool, str]:
    """Alternatives up to the closing bracket or the end; whether they repeat; the bracket."""
    alternatives: list[list[Node]] = [[]]
    repeats = False
    for word in tokens:
        if word in "]>":
            return tuple(map(tuple, alternatives)), repeats, word
        if repeats:
            raise ValueError(f"cannot be read: {word!r} behind ...")
        if word == "|":
            alternatives.append([])
        elif word == "...":
            repeats = True
        elif word in "[<":
            inner, inner_repeats, end = _choice(tokens)
            if end != {"[": "]", "<": ">"}[word] or (inner_repeats and word == "<") or () in inner:
                raise ValueError(f"a bracket is not closed, or not by its partner: {word}")
            alternatives[-1].append(Optional(inner, inner_repeats) if word == "[" else Choice(inner))
        else:
            alternatives[-1].append(Literal(word) if word.isupper() else Argument(word))
    return tuple(map(tuple, alternatives)), repeats, ""
