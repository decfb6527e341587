"""The command registry: a command is one decorated function, and everything else derives from what its decorator says.

    @command("LPOP key [count]", group="list", since="1.0.0", complexity="O(count)", write=True, fast=True,
             access="RW access delete", large_reply=True, notifies="lpop")
    def lpop(tx, args): ...

Arity, key positions, COMMAND and its kin, ACL categories and key permissions, keyspace events, the docs table, the
metrics label and the differential test's strategy all come from `Spec`. `engine.commands.usage` has the notation of
usage lines. An argument called `key`, `newkey`, `source` or `destination` is a key; `numkeys` says how many keys follow
it. Words in `[…]` count for nothing but "more arguments may follow", but for the key of an option:
`SORT key [LIMIT offset count] [STORE destination]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Required, TypedDict, Unpack

from engine.batch.transaction import Transaction
from engine.commands.fills import FindFills
from engine.commands.key_access import READ, WRITE, Access, parse_access
from engine.commands.keyspace_events import Rule, rule_of
from engine.commands.usage import arity, key_options, key_places, parse
from engine.values.replies import Reply
from slotlog.shared.errors import EventError, unknown_command
from slotlog.shared.signature import Signature

Handler = Callable[[Transaction, list[bytes]], Reply]
Patterns = Callable[[list[bytes]], list[tuple[str, bytes]]]
AccessBy = Callable[[list[bytes]], Access]
FindDatabases = Callable[[list[bytes]], list[bytes]]
ClusterRefusal = Callable[[list[bytes]], str]
OnlyReads = Callable[[Transaction, list[bytes]], bool]
Of = Literal["redis", "redis8", "slotlog"]
Database = Literal["current", "every", "named"]

_BY_DEFAULT: Final = {True: WRITE, False: READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Signature):
    """One command, with what a client knows of it as well.

    Attributes:
        handler: takes the transaction and the arguments after the name; returns the reply or raises CommandError before
            it changed anything.
        of: `redis`: Redis has it too, and replies are compared with its; `redis8`: Redis 8 has it, the server that
            replies are compared with has not, so its documents decide; `slotlog`: it is slotlog's own.
        since: the release that brought it, of Redis or of slotlog.
        complexity: as it is implemented here, such as `O(log n)`; what its letters mean stands in the usage line or the
            summary.
        write: it may change the state; else it is a read, which `query` may run.
        patterns: finds the further keys that it reads, as (option, pattern) in the order of the arguments; None: none.
        by_wall: it says how long something has left or is idle, or lists keys: as a server's read, not as an event, it
            goes by the wall clock where that is ahead of the log's.
        cluster_refusal: why such a topic refuses these arguments, as a Redis error; empty: it does not. None: never.
        has_one_key: it stands at `first_key`, and there is no other one.
        guarded: `engine.apply.machine` must look at where it stands, whatever the topic.
        internal: slotlog itself appends it, and no client may send it.
        fast: Redis counts it among the commands that take constant or logarithmic time.
        grows: it may need more memory, so it is refused when there is none left; within a script, too, by the event
            RUNAS_OOM: what this says of a command that is there does not change.
        like_write: Redis lets it wait wherever writes have to, though it changes nothing.
        large_reply: it writes, and its reply may be large. (SET with GET is left to what is noticed later.)
        access: what is done to the keys, for each place in the usage line where keys stand.
        access_by: the same from the arguments, where they decide; None: they do not.
        database: the databases that it looks at: that which the client has selected, every one, or those alone that its
            arguments name.
        databases: the arguments that name databases; None: none does.
        categories: the ACL categories that it is in beside @read or @write and @fast or @slow; None: that of its group.
        sorted_in_scripts: its reply is a list in any order. A script gets it in the order of bytes, without what is
            due: so a script that is an event may call it, whatever `physical` says.
        whole_in_scripts: it gives a collection in pieces. A script that is an event gets all that is left of it at
            once, and so may call it, from `RULES_OF_SCANS_IN_SCRIPTS` on.
        fills: finds the keys that it may fill with elements for which clients wait; None: it fills none.
        tips: how a cluster's client may send it to many nodes; Redis has further tips, which say nothing about that.
        flags: as `COMMAND INFO` gives them, where they do not follow from the other attributes; its categories are all
            that it has then. None: they follow.
        runs_others: it is a script, whose commands are watched and observed one by one; what they wrote stays when it
            fails.
        only_reads: whether a run of it is known to change nothing: a server then reads. None: that is never known.
        needs_memory: whether a run of it says that it does not go without more memory. None: it never says so.
        reads_as: the handler of such a read; None: it is a script, and its `_RO` form is one.
        rule: the keyspace events that it has; None: none.
        keeps_watches: nobody loses a watch by it, unless the key was not there.
    """

    handler: Handler
    usage: str
    group: str
    since: str
    complexity: str
    access: tuple[Access, ...]
    rule: Rule | None
    of: Of = "redis"
    write: bool = False
    fast: bool = False
    grows: bool = False
    access_by: AccessBy | None = None
    database: Database = "current"
    databases: FindDatabases | None = None
    categories: tuple[str, ...] | None = None
    fills: FindFills | None = None
    tips: tuple[str, ...] = ()
    like_write: bool = False
    large_reply: bool = False
    patterns: Patterns | None = None
    by_wall: bool = False
    sorted_in_scripts: bool = False
    whole_in_scripts: bool = False
    cluster_refusal: ClusterRefusal | None = None
    internal: bool = False
    flags: tuple[str, ...] | None = None
    runs_others: bool = False
    only_reads: OnlyReads | None = None
    needs_memory: OnlyReads | None = None
    reads_as: Handler | None = None
    keeps_watches: bool = False
    guarded: bool = field(init=False)
    has_one_key: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarded", self.physical or self.sessional or not self.alone)
        object.__setattr__(self, "has_one_key", self.first_key >= 0 and not self.many_keys and not self.patterns)

    @property
    def release(self) -> str:
        """The release that brought it, as documents show it: `7.0.0` of Redis, `slotlog 1`."""
        return release_of(self.of, self.since)

    @property
    def changes_data(self) -> bool:
        """Whether it may change what a key holds: a write that is not about a session, or about the partition."""
        return self.write and self.alone and not self.sessional and not self.internal

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return first_paragraph(self.handler)


def first_paragraph(handler: Callable[..., object]) -> str:
    """The first paragraph of a handler's docstring: what the command does, in short."""
    return (handler.__doc__ or "").strip().split("\n\n", maxsplit=1)[0].strip()


SPECS: Final[dict[bytes, Spec]] = {}
"""Every command by its upper-case name. Filled by importing `engine.commands`."""


class Facts(TypedDict, total=False):
    """Attributes of `Spec` that a command's decorator may give beside its usage line."""

    group: Required[str]
    since: Required[str]
    complexity: Required[str]
    of: Of
    write: bool
    fast: bool
    grows: bool
    access_by: AccessBy
    database: Database
    databases: FindDatabases
    categories: tuple[str, ...]
    fills: FindFills
    tips: tuple[str, ...]
    like_write: bool
    large_reply: bool
    patterns: Patterns
    by_wall: bool
    sorted_in_scripts: bool
    whole_in_scripts: bool
    physical: bool
    transactional: bool
    for_operators: str
    alone: bool
    sessional: bool
    standalone: bool
    cluster_refusal: ClusterRefusal
    internal: bool
    flags: tuple[str, ...]
    runs_others: bool
    only_reads: OnlyReads
    needs_memory: OnlyReads
    reads_as: Handler
    keeps_watches: bool


def command(
    usage: str,
    *,
    container: bool = False,
    access: str = "",
    notifies: str | Rule | None = None,
    **facts: Unpack[Facts],
) -> Callable[[Handler], Handler]:
    """Register the decorated function under the usage line's first word.

    Args:
        usage: see `engine.commands.usage`.
        container: the name is the first two words: `OBJECT ENCODING key` is `OBJECT|ENCODING`, and its arguments follow
            the second one.
        access: what is done to the keys, see `engine.commands.key_access`; empty: a write is "RW update", a read
            "RO access".
        notifies: the keyspace event, or the rule that makes several; each write has to say it, and "" is for none.
        facts: see `Spec`.

    Raises:
        ValueError: a write does not say which event it has, a word is not in the notation, or the name is taken.
    """
    name, *words = (usage.replace(" ", "|", 1) if container else usage).split(" ", maxsplit=1)
    line = parse(words[0] if words else "")
    least, most = arity(line)
    places, options = key_places(line), key_options(line)
    write = facts.get("write", False)
    if write is (notifies is None):
        message = f"{name}: a write says which keyspace event it has (`notifies`), and no read does"
        raise ValueError(message)

    def register(handler: Handler) -> Handler:
        spec = Spec(
            name=name.encode(),
            handler=handler,
            usage=usage,
            arguments_min=least,
            arguments_max=most,
            first_key=places.first_key,
            key_step=places.key_step,
            many_keys=places.many_keys or bool(options),
            keys_end=places.keys_end,
            key_count=places.key_count,
            keys_optional=places.keys_optional,
            keyword=places.keyword,
            options=options,
            access=parse_access(access or _BY_DEFAULT[write]),
            rule=rule_of(notifies or "", facts["group"]),
            **facts,
        )
        if spec.name in SPECS:
            message = f"{name} is registered twice"
            raise ValueError(message)
        SPECS[spec.name] = spec
        return handler

    return register


def release_of(of: Of, since: str) -> str:
    """`Spec.release` of a command."""
    return f"slotlog {since}" if of == "slotlog" else since


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
