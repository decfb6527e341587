"""Parses usage lines into arguments, for COMMAND DOCS and the places of a command's keys.

    line     = name {item}
    item     = word | LITERAL {word} | "[" choice "]" | "<" choice ">" , each with "..." for "may be repeated"
    choice   = {item} {"|" {item}}      without brackets: words alone, LEFT|RIGHT

`key [key ...]` is one argument that may be repeated, `[COUNT count]` one with the token COUNT, `[NX|XX]` a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from engine.commands.registry import KEY_WORDS as ENGINE_KEY_WORDS

_TOKEN: Final = re.compile(r"\.\.\.|[\[\]<>|]|[^\s\[\]<>|]+")
_INTEGERS: Final = (
    *("count", "cursor", "db", "decrement", "end", "id", "increment", "index", "index1", "index2", "milliseconds"),
    *("number", "numkeys", "numlocal", "numreplicas", "offset", "port", "rank", "seconds", "slot", "start", "stop"),
    *("timeout", "timeout-ms"),
)
KEY_WORDS: Final = (*ENGINE_KEY_WORDS, "shardchannel")
"""A shard channel belongs to a slot as a key does."""

_TYPES: Final = {
    "pattern": "pattern",
    "unix-time-seconds": "unix-time",
    "unix-time-milliseconds": "unix-time",
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(KEY_WORDS, "key"),
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command.

    Attributes:
        name: lower case.
        kind: `key`, `string`, `integer`, `pattern`, `unix-time`, `pure-token`, `oneof` or `block`.
        token: the literal in front of it; of a pure token, itself.
        parts: of a choice or a block.
    """

    name: str
    kind: str
    token: str = ""
    optional: bool = False
    multiple: bool = False
    parts: tuple[Argument, ...] = field(default=())

    @property
    def width(self) -> int:
        """How many words it takes, when it is there once."""
        inner = 1 if self.kind in {"oneof", "pure-token"} else sum(part.width for part in self.parts) or 1
        return inner + (1 if self.token and self.kind != "pure-token" else 0)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Where keys stand in a command, its name being word 0.

    Attributes:
        first: word at which they begin; with `counted`, the one that says how many there are.
        last: 0: there is one; positive: so many follow it; negative: they go on to that word, -1 being the last one.
        step: distance between two of them.
        keyword: the key is what follows this word, which stands at `first` or later.
        known: False: nobody can tell from the arguments' places which they are.
    """

    first: int
    last: int = 0
    step: int = 1
    counted: bool = False
    keyword: str = ""
    known: bool = True

    @property
    def fixed(self) -> bool:
        """Whether places alone say which words are keys."""
        return self.known and not self.counted and not self.keyword


@lru_cache(maxsize=2048)
def arguments(usage: str, names: int) -> tuple[Argument, ...]:
    """The arguments of a usage line whose first `names` words are the command's name."""
    words = usage.split(" ")[names:]
    tokens = _TOKEN.findall(" ".join(_bracketed(words)))
    items, rest = _sequence(tokens)
    if rest:
        raise ValueError(f"{usage!r} has an unexpected {rest[0]!r}")
    return tuple(items)


def key_ranges(usage: str, names: int) -> list[KeyRange]:
    """Where the keys of that usage line stand: those of the arguments that must be there, then those of options."""
    found: list[KeyRange] = []
    items = arguments(usage, names)
    required = _required(items)
    at = names
    for index, argument in enumerate(required):
        behind = sum(other.width for other in required[index + 1 :])
        if argument.name == "numkeys":
            found.append(KeyRange(at, step=required[index + 1].width, counted=True))
            break
        if _has_key(argument) and index and argument == required[index - 1]:
            found[-1] = replace(found[-1], last=found[-1].last + 1)
        elif _has_key(argument):
            last = -1 - behind if argument.multiple else 0
            found.append(KeyRange(at, last, argument.width if argument.multiple else 1))
        at += argument.width
    options = [part for item in items if item.optional for part in (item, *item.parts)]
    return found + [KeyRange(at, keyword=item.token) for item in options if item.token and item.kind == "key"]


def legacy_range(ranges: list[KeyRange]) -> tuple[int, int, int]:
    """First key, last key and step, as COMMAND has it for clients that know nothing better; 0, 0, 0 for no keys."""
    plain = [each for each in ranges if each.fixed]
    if not plain:
        return 0, 0, 0
    last = plain[-1].last
    return plain[0].first, last if last < 0 else plain[-1].first + last, plain[-1].step


def _required(items: tuple[Argument, ...]) -> list[Argument]:
    """The arguments that must be there, and the last one where it may be left out but is a key without a token."""
    return [item for item in items if not item.optional or (item is items[-1] and not item.token and _has_key(item))]


def _has_key(argument: Argument) -> bool:
    return argument.kind == "key" or (argument.kind == "block" and any(map(_has_key, argument.parts)))


# ---------------------------------------------------------------------- reading


def _bracketed(words: list[str]) -> Iterator[str]:
    """The words, a choice such as `LEFT|RIGHT` that stands outside of brackets in brackets."""
    depth = 0
    for word in words:
        depth += word.count("[") + word.count("<")
        yield f"<{word}>" if depth == 0 and "|" in word else word
        depth -= word.count("]") + word.count(">")


def _sequence(tokens: list[str]) -> tuple[list[Argument], list[str]]:
    """Items up to the end of a choice, and the tokens from there on."""
    items: list[Argument] = []
    while tokens and tokens[0] not in "]>|":
        item, tokens = _item(tokens)
        if tokens and tokens[0] == "...":
            tokens = tokens[1:]
            item = replace(item, multiple=True)
        _add(items, item)
    return items, tokens


def _item(tokens: list[str]) -> tuple[Argument, list[str]]:
    first, tokens = tokens[0], tokens[1:]
    if first in "[<":
        choice, tokens = _choice(tokens)
        if first == "<":
            return choice, tokens[1:]
        repeated = tokens[0] == "..." or choice.multiple
        return replace(choice, optional=True, multiple=repeated), tokens[1:]
    if not first.isupper():
        return Argument(first, _TYPES.get(first, "string")), tokens
    words: list[Argument] = []
    if tokens and tokens[0] == "<":
        choice, tokens = _choice(tokens[1:])
        return replace(choice, token=first), tokens[1:]
    while tokens and tokens[0] not in {"[", "]", "<", ">", "|", "..."} and not tokens[0].isupper():
        words.append(Argument(tokens[0], _TYPES.get(tokens[0], "string")))
        tokens = tokens[1:]
    if not words:
        return Argument(first.lower(), "pure-token", first), tokens
    return replace(_block(words), token=first), tokens


def _choice(tokens: list[str]) -> tuple[Argument, list[str]]:
    """What stands between brackets, up to the closing one."""
    alternatives = []
    while True:
        items, tokens = _sequence(tokens)
        alternatives.append(_block(items))
        if tokens[0] != "|":
            break
        tokens = tokens[1:]
    if len(alternatives) == 1:
        return alternatives[0], tokens
    name = "-".join(part.name for part in alternatives)
    return Argument(name, "oneof", parts=tuple(alternatives)), tokens


def _block(items: list[Argument]) -> Argument:
    """Several arguments as one."""
    if len(items) == 1:
        return items[0]
    multiple = bool(items) and items[-1].multiple and all(not item.multiple for item in items[:-1])
    parts = (*items[:-1], replace(items[-1], multiple=False)) if multiple else tuple(items)
    return Argument("-".join(item.name for item in items), "block", multiple=multiple, parts=parts)


def _add(items: list[Argument], item: Argument) -> None:
    """Append an item; `[key ...]` behind `key` makes that one repeatable instead."""
    again = item.parts if item.kind == "block" and not item.token else (replace(item, optional=False, multiple=False),)
    if item.optional and item.multiple and items[-len(again) :] == list(again):
        del items[-len(again) :]
        items.append(replace(item, optional=False))
    else:
        items.append(item)
