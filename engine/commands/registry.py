"""The command registry: a command is one decorated function, and everything else derives from its usage line.

    @command("LPOP key [count]", group="list", since="1.0.0", write=True)
    def lpop(tx, args): ...

Arity, key positions, `COMMAND`, the docs table, the metrics label and the differential test's strategy all come from
`Spec`. `engine.commands.usage` has the notation of usage lines. An argument called `key`, `newkey`, `source` or
`destination` is a key; `numkeys` says how many keys follow it. Words in `[…]` count for nothing but "more arguments may
follow", but for the key of an option: `SORT key [LIMIT offset count] [STORE destination]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.usage import arity, key_options, key_places, parse
from engine.errors import EventError, unknown_command, wrong_arity
from engine.values.numbers import parse_int
from engine.values.replies import Reply

Handler = Callable[[Transaction, list[bytes]], Reply]
Patterns = Callable[[list[bytes]], list[tuple[str, bytes]]]


@dataclass(frozen=True, slots=True)
class Spec:
    """One command.

    Attributes:
        name: upper case, as bytes.
        handler: takes the transaction and the arguments after the name; returns the reply or raises CommandError before
            it changed anything.
        complexity: as it is implemented here, such as `O(log n)`; what its letters mean stands in the usage line or the
            summary.
        write: it may change the state; else it is a read, which `query` may run.
        arguments_min, arguments_max: how many arguments may follow the name.
        first_key, key_step: index of the first key among the arguments (-1: none) and the distance to the next one.
        many_keys: there may be more than one key.
        keys_end: where they end at the latest, exclusive; 0 when they may go on to the last argument.
        key_count: index of the argument that says how many keys follow it (-1: none does). Keys in front of it, such as
            a destination, are not counted.
        patterns: finds the further keys that it reads, as (option, pattern) in the order of the arguments; None: none.
        options: by its literal, how many arguments follow an option, and whether they are a key; empty unless one is.
        by_wall: it says how long something has left, or lists keys: as a server's read, not as an event, it goes by the
            wall clock where that is ahead of the log's.
        physical: its reply counts records that are due as well, so no event may contain it (docs/differences.md).
        transactional: it may stand in an EXEC.
        alone: it may be an event of its own, outside of an EXEC.
        sessional: as an event of its own it needs a session.
        standalone: a topic of several partitions refuses it.
        guarded: `engine.apply.machine` must look at where it stands, whatever the topic.
    """

    name: bytes
    handler: Handler
    usage: str
    group: str
    since: str
    complexity: str
    write: bool
    arguments_min: int
    arguments_max: int
    first_key: int
    key_step: int
    many_keys: bool
    keys_end: int
    key_count: int
    options: Mapping[bytes, tuple[int, bool]]
    patterns: Patterns | None
    by_wall: bool
    physical: bool
    transactional: bool
    alone: bool
    sessional: bool
    standalone: bool
    guarded: bool

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
        if self.key_count < 0:
            found = list(args[self.first_key : self.keys_end or None : self.key_step])
            return found + self._option_keys(args) if self.options else found
        first, step = self.key_count + 1, self.key_step
        count = parse_int(args[self.key_count])
        # A count that cannot be is the command's to refuse; until then the event belongs where its first key does.
        end = first + (count * step if count is not None and 0 < count * step <= len(args) - first else 1)
        return [*args[self.first_key : self.key_count], *args[first:end:step]]

    def _option_keys(self, args: Sequence[bytes]) -> list[bytes]:
        """The key that the last option with one names, where it has its value. Words of no option are passed over."""
        found: list[bytes] = []
        at = self.arguments_min
        while at < len(args):
            width, is_key = self.options.get(args[at].partition(b"\0")[0].upper(), (0, False))
            if is_key and at + 1 < len(args):
                found = [args[at + 1]]
            at += 1 + width
        return found


SPECS: Final[dict[bytes, Spec]] = {}
"""Every command by its upper-case name. Filled by importing `engine.commands`."""


def command(
    usage: str,
    *,
    group: str,
    since: str,
    complexity: str,
    write: bool = False,
    patterns: Patterns | None = None,
    by_wall: bool = False,
    physical: bool = False,
    transactional: bool = True,
    alone: bool = True,
    sessional: bool = False,
    standalone: bool = False,
    container: bool = False,
) -> Callable[[Handler], Handler]:
    """Register the decorated function under the usage line's first word.

    With `container` the name is the first two: `OBJECT ENCODING key` is `OBJECT|ENCODING`, and its arguments follow
    the second one.
    """

    def register(handler: Handler) -> Handler:
        name, *words = (usage.replace(" ", "|", 1) if container else usage).split(" ", maxsplit=1)
        line = parse(words[0] if words else "")
        least, most = arity(line)
        places, options = key_places(line), key_options(line)
        spec = Spec(
            name=name.encode(),
            handler=handler,
            usage=usage,
            group=group,
            since=since,
            complexity=complexity,
            write=write,
            arguments_min=least,
            arguments_max=most,
            first_key=places.first_key,
            key_step=places.key_step,
            many_keys=places.many_keys or bool(options),
            keys_end=places.keys_end,
            key_count=places.key_count,
            options=options,
            patterns=patterns,
            by_wall=by_wall,
            physical=physical,
            transactional=transactional,
            alone=alone,
            sessional=sessional,
            standalone=standalone,
            guarded=physical or sessional or not alone,
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


def find_words(words: Sequence[bytes]) -> tuple[Spec, list[bytes]]:
    """The command that a client's words are, that of a container's subcommand included, and its arguments.

    Raises:
        EventError: there is none.
    """
    if len(words) > 1 and (spec := SPECS.get(b"%b|%b" % (words[0].upper(), words[1].upper()))):
        return spec, list(words[2:])
    return find(words[0]), list(words[1:])


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
