"""The command registry: a command is one decorated function, and everything else derives from its usage line.

    @command("LPOP key [count]", group="list", since="1.0.0", write=True)
    def lpop(tx, args): ...

Arity, key positions, `COMMAND`, the docs table, the metrics label and the differential test's strategy all come from
`Spec`. `engine.commands.usage` has the notation of usage lines. An argument called `key`, `newkey`, `source` or
`destination` is a key; `numkeys` says how many keys follow it. Words in `[…]` count for nothing but "more arguments may
follow", but for the key of an option: `SORT key [LIMIT offset count] [STORE destination]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.usage import arity, key_options, key_places, parse
from engine.values.replies import Reply
from slotlog.shared.errors import EventError, unknown_command
from slotlog.shared.signature import Signature

Handler = Callable[[Transaction, list[bytes]], Reply]
Patterns = Callable[[list[bytes]], list[tuple[str, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Signature):
    """One command, with what a client knows of it as well.

    Attributes:
        handler: takes the transaction and the arguments after the name; returns the reply or raises CommandError before
            it changed anything.
        complexity: as it is implemented here, such as `O(log n)`; what its letters mean stands in the usage line or the
            summary.
        write: it may change the state; else it is a read, which `query` may run.
        patterns: finds the further keys that it reads, as (option, pattern) in the order of the arguments; None: none.
        by_wall: it says how long something has left, or lists keys: as a server's read, not as an event, it goes by the
            wall clock where that is ahead of the log's.
        alone: it may be an event of its own, outside of an EXEC.
        sessional: as an event of its own it needs a session.
        standalone: a topic of several partitions refuses it.
        guarded: `engine.apply.machine` must look at where it stands, whatever the topic.
    """

    handler: Handler
    usage: str
    group: str
    since: str
    complexity: str
    write: bool
    patterns: Patterns | None
    by_wall: bool
    alone: bool
    sessional: bool
    standalone: bool
    guarded: bool

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n\n", maxsplit=1)[0].strip()


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


def keys_of(name: bytes, args: Sequence[bytes]) -> list[bytes]:
    """The keys of a command, such as a producer needs for its routing.

    Raises:
        EventError: unknown command or wrong number of arguments.
    """
    spec = find(name)
    spec.check_arity(args)
    return spec.keys(args)
