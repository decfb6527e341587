"""The command registry: a command is one decorated function, and everything else derives from its usage line.

    @command("LPOP key [count]", group="list", since="1.0.0", write=True)
    def lpop(tx, args): ...

Arity, key positions, `COMMAND`, the docs table, the metrics label and the differential test's strategy all come from
`Spec`. In a usage line, lower-case words are arguments, upper-case words are literals, `[…]` may be left out, `…  ...`
repeats, `a|b` is a choice, and an argument called `key` is a key. Words in `[…]` count for nothing but "more arguments
may follow".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.errors import EventError, unknown_command, wrong_arity
from engine.replies import Reply
from engine.transaction import Transaction

Handler = Callable[[Transaction, list[bytes]], Reply]

_ANY_NUMBER: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Spec:
    """One command.

    Attributes:
        name: upper case, as bytes.
        handler: takes the transaction and the arguments after the name; returns the reply or raises CommandError before
            it changed anything.
        write: it may change the state; else it is a read, which `query` may run.
        arguments_min, arguments_max: how many arguments may follow the name.
        first_key, key_step: index of the first key among the arguments (-1: none) and the distance to the next one.
        many_keys: keys go on to the last argument; else there is one.
        physical: its reply counts records that are due as well, so no event may contain it (docs/differences.md).
        transactional: it may stand in an EXEC (of commands without keys: those of Redis alone).
    """

    name: bytes
    handler: Handler
    usage: str
    group: str
    since: str
    write: bool
    arguments_min: int
    arguments_max: int
    first_key: int
    key_step: int
    many_keys: bool
    physical: bool
    transactional: bool

    @property
    def keyless(self) -> bool:
        """Whether the command names no key: as an event it acts on the partition that it is in."""
        return self.first_key < 0

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n\n", maxsplit=1)[0].strip()

    def keys(self, args: Sequence[bytes]) -> list[bytes]:
        """The keys among `args`."""
        if self.first_key < 0:
            return []
        if not self.many_keys:
            return [args[self.first_key]]
        return list(args[self.first_key :: self.key_step])


SPECS: Final[dict[bytes, Spec]] = {}
"""Every command by its upper-case name. Filled by importing `engine.commands`."""


def command(
    usage: str,
    *,
    group: str,
    since: str,
    write: bool = False,
    physical: bool = False,
    transactional: bool = True,
) -> Callable[[Handler], Handler]:
    """Register the decorated function under the usage line's first word."""

    def register(handler: Handler) -> Handler:
        name, *words = usage.split(" ", maxsplit=1)
        least, most = _arity(words[0] if words else "")
        first_key, key_step, many_keys = _key_positions(words[0] if words else "")
        spec = Spec(
            name=name.encode(),
            handler=handler,
            usage=usage,
            group=group,
            since=since,
            write=write,
            arguments_min=least,
            arguments_max=most,
            first_key=first_key,
            key_step=key_step,
            many_keys=many_keys,
            physical=physical,
            transactional=transactional,
        )
        if spec.name in SPECS:
            message = f"{name} is registered twice"
            raise ValueError(message)
        SPECS[spec.name] = spec
        return handler

    return register


def find(name: bytes) -> Spec:
    """The command of that name, in any case.

    Raises:
        EventError: there is none.
    """
    spec = SPECS.get(name) or SPECS.get(name.upper())
    if spec is None:
        raise EventError(unknown_command(name))
    return spec


def check_arity(spec: Spec, args: Sequence[bytes]) -> None:
    """Refuse a wrong number of arguments.

    Raises:
        EventError: with Redis' text.
    """
    if not spec.arguments_min <= len(args) <= spec.arguments_max:
        raise EventError(wrong_arity(spec.name.decode().lower()))


def keys_of(name: bytes, args: Sequence[bytes]) -> list[bytes]:
    """The keys of a command, such as a producer needs for its routing.

    Raises:
        EventError: unknown command or wrong number of arguments.
    """
    spec = find(name)
    check_arity(spec, args)
    return spec.keys(args)


def _without_optional(words: str) -> str:
    while "[" in words:
        words = re.sub(r"\[[^][]*\]", "", words)
    return words


def _arity(words: str) -> tuple[int, int]:
    required = len(_without_optional(words).split())
    return required, required if "[" not in words else _ANY_NUMBER


def _key_positions(words: str) -> tuple[int, int, bool]:
    required = _without_optional(words).split()
    if "key" not in required:
        return -1, 0, False
    first = required.index("key")
    repeated = re.search(r"\[(key\b[^]]*?) \.\.\.\]", words)
    if repeated is None:
        return first, 0, False
    return first, len(repeated[1].split()), True
