"""Describes the arguments of usage lines as COMMAND DOCS does, and the places of their keys as COMMAND INFO does.

Both come from the syntax tree of `engine.commands.usage`. `key [key ...]` is one argument that may be repeated,
`[COUNT count]` one with the token COUNT, `[NX|XX]` a choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from typing import Final

from engine.commands import usage
from engine.commands.usage import Choice, Line, Literal, Optional

_INTEGERS: Final = (
    *("count", "cursor", "db", "decrement", "end", "id", "increment", "index", "index1", "index2", "milliseconds"),
    *("number", "numkeys", "numlocal", "numreplicas", "offset", "port", "rank", "seconds", "slot", "start", "stop"),
    *("timeout", "timeout-ms"),
)
KEY_WORDS: Final = (*usage.KEY_WORDS, "shardchannel")
"""A shard channel belongs to a slot as a key does."""

_TYPES: Final = {
    "pattern": "pattern",
    "unix-time-seconds": "unix-time",
    "unix-time-milliseconds": "unix-time",
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(KEY_WORDS, "key"),
}


@dataclass(frozen=True, slots=True)
class ArgumentDoc:
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
    parts: tuple[ArgumentDoc, ...] = field(default=())

    @property
    def width(self) -> int:
        """How many words it takes, when it is there once."""
        inner = 1 if self.kind in {"oneof", "pure-token"} else sum(part.width for part in self.parts) or 1
        return inner + (1 if self.token and self.kind != "pure-token" else 0)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The places of keys in a command; its name is word 0.

    Attributes:
        first: word at which they begin; with `counted`, the one that says how many there are.
        last: 0: there is one; positive: so many follow it; negative: they go on to that word, -1 being the last one.
        step: distance between two of them.
        keyword: the key is what follows this word, which stands at `first` or later.
        halved: the keys are the first half of what follows the keyword.
        known: False: nobody can tell from the arguments' places which they are.
    """

    first: int
    last: int = 0
    step: int = 1
    counted: bool = False
    keyword: str = ""
    halved: bool = False
    known: bool = True

    @property
    def fixed(self) -> bool:
        """Whether places alone say which words are keys."""
        return self.known and not self.counted and not self.keyword


@lru_cache(maxsize=2048)
def arguments(line: str, names: int) -> tuple[ArgumentDoc, ...]:
    """The arguments of a usage line whose first `names` words are the command's name."""
    return tuple(_items(usage.parse(" ".join(line.split(" ")[names:]))))


def key_ranges(line: str, names: int) -> list[KeyRange]:
    """The places of the keys in a usage line: first those of required arguments, then those of options."""
    found: list[KeyRange] = []
    items = arguments(line, names)
    required = _required(items)
    at = names
    for index, argument in enumerate(required):
        behind = sum(other.width for other in required[index + 1 :])
        if argument.name == "numkeys":
            counted = items[items.index(argument) + 1]
            found.append(KeyRange(at, step=counted.width if counted in required else 1, counted=True))
            break
        if _has_key(argument) and index and argument == required[index - 1]:
            found[-1] = replace(found[-1], last=found[-1].last + 1)
        elif _has_key(argument) and argument.token:
            found.append(KeyRange(at, keyword=argument.token, halved=True))
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


def _required(items: tuple[ArgumentDoc, ...]) -> list[ArgumentDoc]:
    """The arguments that must be there, and the last one where it may be left out but is a key without a token."""
    return [item for item in items if not item.optional or (item is items[-1] and not item.token and _has_key(item))]


def _has_key(argument: ArgumentDoc) -> bool:
    return argument.kind == "key" or (argument.kind == "block" and any(map(_has_key, argument.parts)))


# ---------------------------------------------------------------------- from the syntax tree


def _items(line: Line) -> list[ArgumentDoc]:
    """The nodes of a line as arguments: a literal takes what follows it, down to the next literal or bracket."""
    items: list[ArgumentDoc] = []
    at = 0
    while at < len(line):
        node = line[at]
        at += 1
        if isinstance(node, usage.Argument):
            item = _value(node)
        elif isinstance(node, Literal):
            values = _values(line[at:])
            at += len(values)
            item = _with_token(node.word, values)
            if values == usage.KEYS_AND_IDS:
                item = replace(item, name=node.word.lower())
        else:
            item = _alternatives(node.alternatives)
        if isinstance(node, Optional):
            item = replace(item, optional=True, multiple=node.repeats or item.multiple)
        _add(items, item)
    return items


def _values(line: Line) -> Line:
    """What belongs to the literal in front of it: one choice, or all arguments up to the next other node."""
    if line and isinstance(line[0], Choice):
        return line[:1]
    if line == usage.KEYS_AND_IDS:
        return line
    return tuple(takewhile(lambda node: isinstance(node, usage.Argument), line))


def _with_token(word: str, values: Line) -> ArgumentDoc:
    return replace(_block(_items(values)), token=word) if values else ArgumentDoc(word.lower(), "pure-token", word)


def _value(node: usage.Argument) -> ArgumentDoc:
    return ArgumentDoc(node.word, _TYPES.get(node.word, "string"))


def _alternatives(lines: tuple[Line, ...]) -> ArgumentDoc:
    blocks = tuple(_block(_items(line)) for line in lines)
    return blocks[0] if len(blocks) == 1 else ArgumentDoc("-".join(part.name for part in blocks), "oneof", parts=blocks)


def _block(items: list[ArgumentDoc]) -> ArgumentDoc:
    """Several arguments as one."""
    if len(items) == 1:
        return items[0]
    multiple = bool(items) and items[-1].multiple and all(not item.multiple for item in items[:-1])
    parts = (*items[:-1], replace(items[-1], multiple=False)) if multiple else tuple(items)
    return ArgumentDoc("-".join(item.name for item in items), "block", multiple=multiple, parts=parts)


def _add(items: list[ArgumentDoc], item: ArgumentDoc) -> None:
    """Append an item; `[key ...]` behind `key` makes that one repeatable instead."""
    again = item.parts if item.kind == "block" and not item.token else (replace(item, optional=False, multiple=False),)
    if item.optional and item.multiple and items[-len(again) :] == list(again):
        del items[-len(again) :]
        items.append(replace(item, optional=False))
    else:
        items.append(item)
