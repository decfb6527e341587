"""Redis keyspace events: which of them follow from the keys that a command modified, and in which order.

    @command("HSET key field value [field value ...]", …, notifies="hset")         one event, in the class of its group
    @command("SUNIONSTORE destination key [key ...]", …, notifies=stored("s", b"sunionstore"))

An event follows from the command, from its arguments, and from whether a key was there before and is there after it.
XADD that trims and commands that make a consumer note that beside (`Transaction.note_done`), as it follows from none.
Classes are the letters of `notify-keyspace-events`: g generic, $ string, l list, s set, h hash, z sorted set,
t stream, x expired, n new. Names and order are those of valkey 9.1: https://valkey.io/topics/notifications/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from engine.values.numbers import parse_int

GENERIC: Final = "g"
STRING: Final = "$"
LIST: Final = "l"
SET: Final = "s"
HASH: Final = "h"
ZSET: Final = "z"
STREAM: Final = "t"
EXPIRED: Final = "x"
NEW: Final = "n"

CONSUMER_MADE: Final = b"xgroup-createconsumer"
TRIMMED: Final = b"xtrim"
"""Events of streams that a command may tell beside its own."""

_OF_GROUP: Final = {
    **dict.fromkeys(("string", "bitmap", "hyperloglog"), STRING),
    **dict.fromkeys(("sorted-set", "geo"), ZSET),
    "generic": GENERIC,
    "hash": HASH,
    "list": LIST,
    "set": SET,
    "stream": STREAM,
}
"""The class of a command's event by the group of the command."""


class KeyspaceEvent(NamedTuple):
    """One thing that happened to one key.

    Attributes:
        letter: its class.
        db: of the key.
    """

    letter: str
    name: bytes
    db: int
    key: bytes


class Change(NamedTuple):
    """A key that a command modified.

    Attributes:
        created: it was not there before.
        gone: it is not there any more.
        now_ms: the log time of the command.
        further: what else the command has done to the key: further events of streams.
    """

    db: int
    key: bytes
    created: bool
    gone: bool
    now_ms: int
    further: tuple[bytes, ...] = ()

    def event(self, letter: str, name: bytes) -> KeyspaceEvent:
        """An event about this key."""
        return KeyspaceEvent(letter, name, self.db, self.key)

    def happened(self, letter: str, name: bytes) -> Iterator[KeyspaceEvent]:
        """An event about this key, with `new` before it, and further ones and `del` behind it where they belong."""
        if self.created:
            yield self.event(NEW, b"new")
        yield self.event(letter, name)
        yield from (self.event(STREAM, each) for each in self.further)
        if self.gone:
            yield self.event(GENERIC, b"del")


Rule = Callable[[list[bytes], list[Change]], Iterator[KeyspaceEvent]]
"""(arguments of the command, the keys that it modified) -> its events in order."""


def rule_of(notifies: str | Rule, group: str) -> Rule | None:
    """What `@command(notifies=…)` says as a rule; None: the command tells nothing.

    Args:
        notifies: a rule, or the name of the one event that the command has, or nothing.
        group: of the command.
    """
    if not isinstance(notifies, str):
        return notifies
    return always(_OF_GROUP[group], notifies.encode()) if notifies else None


def always(letter: str, name: bytes) -> Rule:
    """The command has one event, and `del` follows when nothing is left of the key."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
        for change in changes:
            yield from change.happened(letter, name)

    return rule


def stored(letter: str, name: bytes) -> Rule:
    """The command replaces its destination by a result; an empty one deletes it."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
        for change in changes:
            if change.gone:
                yield change.event(GENERIC, b"del")
            else:
                yield from change.happened(letter, name)

    return rule


def replaced(from_name: bytes, to_name: bytes) -> Rule:
    """RENAME, MOVE and COPY: the key at the new place is new even where it replaces another one."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
        arrived = [change for change in changes if not change.gone]
        yield from (change.event(NEW, b"new") for change in arrived)
        yield from (change.event(GENERIC, from_name) for change in changes if change.gone)
        yield from (change.event(GENERIC, to_name) for change in arrived)

    return rule


def popped(letter: str, names: Mapping[bytes, bytes]) -> Rule:
    """LMPOP and ZMPOP: the word behind the keys says from which end."""

    def rule(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
        where = args[1 + (parse_int(args[0]) or 0)].upper()
        return always(letter, names[where])(args, changes)

    return rule


def further(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """Tell nothing but what the command has done beside."""
    return (change.event(STREAM, name) for change in changes for name in change.further)


def deleted(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """Every key that was modified is deleted."""
    return (change.event(GENERIC, b"del") for change in changes)


def expire_set(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """A time to live that is over already is a death of old age, whatever command gave it."""
    for change in changes:
        yield change.event(EXPIRED, b"expired") if change.gone else change.event(GENERIC, b"expire")
