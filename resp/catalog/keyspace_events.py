"""Redis keyspace events for each command's effects: `set`, `expire`, `lpop`, `del` …, in Redis' order.

An event follows from the command and from the type of the key before and after it, so nothing in the engine knows of
events. Names and order are those of valkey 9.1: https://valkey.io/topics/notifications/.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from engine.apply.records import Applied, Modified
from engine.commands.hashes.field_options import HGETEX_OPTIONS, HSETEX_OPTIONS, parse_options, split_behind_key
from engine.model import NONE
from engine.values.numbers import parse_int

GENERIC: Final = "g"
STRING: Final = "$"
LIST: Final = "l"
SET: Final = "s"
HASH: Final = "h"
ZSET: Final = "z"
EXPIRED: Final = "x"
NEW: Final = "n"

_EXPIRY_OPTIONS: Final = frozenset({b"EX", b"PX", b"EXAT", b"PXAT"})


class Event(NamedTuple):
    """One thing that happened to one key.

    Attributes:
        letter: its class, as in `notify-keyspace-events`.
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
    """

    db: int
    key: bytes
    created: bool
    gone: bool
    now_ms: int

    def event(self, letter: str, name: bytes) -> Event:
        """An event about this key."""
        return Event(letter, name, self.db, self.key)


Rule = Callable[[list[bytes], list[Change]], Iterator[Event]]
"""(arguments of the command, the keys that it modified) -> its events in order."""


def events_of(applied: Applied) -> Iterator[Event]:
    """The events of what a batch modified, command by command.

    Keys and fields of it that were due are gone before the command.
    """
    modified, gone = applied.modified, deque(_expired(applied))
    at = 0
    while at < len(modified):
        offset, _, name, args, *_ = modified[at]
        end = at + 1
        while end < len(modified) and modified[end][0] == offset and modified[end][3] is args:
            end += 1
        while gone and gone[0][0] < end:
            yield gone.popleft()[1]
        rule = RULES.get(name)
        if rule is not None:
            yield from rule(args, [_change(one) for one in modified[at:end]])
        at = end


def _expired(applied: Applied) -> list[tuple[int, Event]]:
    """What was due, with the place in `modified` before which it is told."""
    events = [(place, Event(EXPIRED, b"expired", db, key)) for place, db, key in applied.expired]
    for place, db, key, dead in applied.expired_fields:
        events.append((place, Event(HASH, b"hexpired", db, key)))
        if dead:
            events.append((place, Event(GENERIC, b"del", db, key)))
    return sorted(events, key=itemgetter(0))


def _change(modified: Modified) -> Change:
    _, db, _, _, _, key, before, after, now_ms = modified
    return Change(db, key, created=before == NONE, gone=after == NONE, now_ms=now_ms)


# ---------------------------------------------------------------------- rules of one key


def _always(letter: str, name: bytes) -> Rule:
    """The command has one event, and `del` follows when nothing is left of the key."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
        for change in changes:
            yield from _happened(change, letter, name)

    return rule


def _stored(letter: str, name: bytes) -> Rule:
    """The command replaces its destination by a result; an empty one deletes it."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
        for change in changes:
            if change.gone:
                yield change.event(GENERIC, b"del")
            else:
                yield from _happened(change, letter, name)

    return rule


def _happened(change: Change, letter: str, name: bytes) -> Iterator[Event]:
    if change.created:
        yield change.event(NEW, b"new")
    yield change.event(letter, name)
    if change.gone:
        yield change.event(GENERIC, b"del")


def _deleted(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    return (change.event(GENERIC, b"del") for change in changes)


def _expire(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    """A time to live that is over already is a death of old age, whatever command gave it."""
    for change in changes:
        yield change.event(EXPIRED, b"expired") if change.gone else change.event(GENERIC, b"expire")


def _set(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    return _string_set(changes, expires=_has_expiry(args[2:]))


def _setex(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    return _string_set(changes, expires=True)


def _string_set(changes: list[Change], *, expires: bool) -> Iterator[Event]:
    for change in changes:
        if change.gone:
            yield change.event(EXPIRED, b"expired")
            continue
        yield from _happened(change, STRING, b"set")
        if expires:
            yield change.event(GENERIC, b"expire")


def _has_expiry(options: list[bytes]) -> bool:
    """Whether the options of SET hold a time to live. The word behind IFEQ is a value, whatever it says."""
    words = iter(options)
    for word in words:
        upper = word.upper()
        if upper in _EXPIRY_OPTIONS:
            return True
        if upper == b"IFEQ":
            next(words, None)
    return False


def _getex(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    if args[1].upper() == b"PERSIST":
        return _always(GENERIC, b"persist")(args, changes)
    return _expire(args, changes)


def _hexpire(unit_ms: int, *, relative: bool) -> Rule:
    """A time in the past deletes the fields, and that is what Redis tells; `hexpired` is for those that die later."""

    def rule(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
        for change in changes:
            expire_ms = (parse_int(args[1]) or 0) * unit_ms + (change.now_ms if relative else 0)
            yield from _happened(change, HASH, b"hdel" if expire_ms <= change.now_ms else b"hexpire")

    return rule


def _hgetex(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    options = parse_options(split_behind_key(args)[0], HGETEX_OPTIONS)
    for change in changes:
        expire_ms = options.expire_ms(change.now_ms, "")
        name = b"hpersist" if expire_ms is None else b"hexpired" if expire_ms <= change.now_ms else b"hexpire"
        yield from _happened(change, HASH, name)


def _hsetex(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    """It tells everything that it does, even where nothing of it is left."""
    options = parse_options(split_behind_key(args)[0], HSETEX_OPTIONS)
    for change in changes:
        yield from _happened(change._replace(gone=False), HASH, b"hset")
        expire_ms = options.expire_ms(change.now_ms, "")
        if expire_ms is not None:
            yield change.event(HASH, b"hexpire")
            if expire_ms <= change.now_ms:
                yield change.event(HASH, b"hexpired")
        if change.gone:
            yield change.event(GENERIC, b"del")


def _zadd(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    increments = False
    for word in args[1:]:
        if word.upper() not in {b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"}:
            break
        increments = increments or word.upper() == b"INCR"
    return _always(ZSET, b"zincr" if increments else b"zadd")(args, changes)


def _popped(letter: str, names: dict[bytes, bytes]) -> Rule:
    """LMPOP and ZMPOP: the word behind the keys says from which end."""

    def rule(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
        where = args[1 + (parse_int(args[0]) or 0)].upper()
        return _always(letter, names[where])(args, changes)

    return rule


# ---------------------------------------------------------------------- rules of several keys


def _many_set(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    """MSET: a key that is named twice is set twice."""
    by_key = {change.key: change for change in changes}
    for key in args[::2]:
        change = by_key.get(key)
        if change is not None:
            yield from _happened(change, STRING, b"set")
            by_key[key] = change._replace(created=False)


def _many_set_with_options(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    """MSETEX: `numkeys key value …`, then the options of SET."""
    end = 1 + 2 * (parse_int(args[0]) or 0)
    expires = _has_expiry(args[end:])
    by_key = {change.key: change for change in changes}
    for key in args[1:end:2]:
        change = by_key.get(key)
        if change is not None:
            yield from _string_set([change], expires=expires)
            by_key[key] = change._replace(created=False)


def _move_element(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    return _moved(args, changes, args[2].upper(), args[3].upper())


def _pop_and_push(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    return _moved(args, changes, b"RIGHT", b"LEFT")


def _moved(args: list[bytes], changes: list[Change], where_from: bytes, where_to: bytes) -> Iterator[Event]:
    """The push comes first, as Redis has it. A list that is moved within itself is one key."""
    by_key = {change.key: change for change in changes}
    source, destination = by_key.get(args[0]), by_key.get(args[1])
    if destination is not None:
        yield from _happened(destination._replace(gone=False), LIST, b"lpush" if where_to == b"LEFT" else b"rpush")
    if source is not None:
        yield from _happened(source, LIST, b"lpop" if where_from == b"LEFT" else b"rpop")


def _smove(args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    by_key = {change.key: change for change in changes}
    source, destination = by_key.get(args[0]), by_key.get(args[1])
    if source is not None:
        yield from _happened(source, SET, b"srem")
    if destination is not None:
        yield from _happened(destination, SET, b"sadd")


def _replaced(from_name: bytes, to_name: bytes) -> Rule:
    """RENAME, MOVE and COPY: the key at the new place is new even where it replaces another one."""

    def rule(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
        arrived = [change for change in changes if not change.gone]
        yield from (change.event(NEW, b"new") for change in arrived)
        yield from (change.event(GENERIC, from_name) for change in changes if change.gone)
        yield from (change.event(GENERIC, to_name) for change in arrived)

    return rule


def _restore(_args: list[bytes], changes: list[Change]) -> Iterator[Event]:
    """The key is new even where it replaces another one; nothing but a removal is left of one that is due already."""
    for change in changes:
        if change.gone:
            yield change.event(GENERIC, b"del")
        else:
            yield change.event(NEW, b"new")
            yield change.event(GENERIC, b"restore")


_ONE_EVENT: Final[dict[str, dict[bytes, tuple[bytes, ...]]]] = {
    STRING: {
        b"set": (b"SETNX", b"GETSET"),
        b"incrby": (b"INCR", b"DECR", b"INCRBY", b"DECRBY"),
        b"incrbyfloat": (b"INCRBYFLOAT",),
        b"append": (b"APPEND",),
        b"setrange": (b"SETRANGE",),
        b"setbit": (b"SETBIT", b"BITFIELD"),
        b"pfadd": (b"PFADD", b"PFMERGE"),
    },
    HASH: {
        b"hset": (b"HSET", b"HMSET", b"HSETNX"),
        b"hincrby": (b"HINCRBY",),
        b"hincrbyfloat": (b"HINCRBYFLOAT",),
        b"hdel": (b"HDEL", b"HGETDEL"),
        b"hpersist": (b"HPERSIST",),
    },
    LIST: {
        b"lpush": (b"LPUSH", b"LPUSHX"),
        b"rpush": (b"RPUSH", b"RPUSHX"),
        b"lpop": (b"LPOP",),
        b"rpop": (b"RPOP",),
        b"linsert": (b"LINSERT",),
        b"lset": (b"LSET",),
        b"lrem": (b"LREM",),
        b"ltrim": (b"LTRIM",),
    },
    SET: {b"sadd": (b"SADD",), b"srem": (b"SREM",), b"spop": (b"SPOP",)},
    ZSET: {
        b"zadd": (b"GEOADD",),
        b"zincr": (b"ZINCRBY",),
        b"zrem": (b"ZREM",),
        b"zpopmin": (b"ZPOPMIN",),
        b"zpopmax": (b"ZPOPMAX",),
        b"zremrangebyrank": (b"ZREMRANGEBYRANK",),
        b"zremrangebyscore": (b"ZREMRANGEBYSCORE",),
        b"zremrangebylex": (b"ZREMRANGEBYLEX",),
    },
    GENERIC: {b"persist": (b"PERSIST",)},
}
"""Class -> event -> the commands that have this event and no other."""

_STORING: Final[dict[str, dict[bytes, bytes]]] = {
    SET: {b"SINTERSTORE": b"sinterstore", b"SUNIONSTORE": b"sunionstore", b"SDIFFSTORE": b"sdiffstore"},
    ZSET: {
        b"ZRANGESTORE": b"zrangestore",
        b"ZUNIONSTORE": b"zunionstore",
        b"ZINTERSTORE": b"zinterstore",
        b"ZDIFFSTORE": b"zdiffstore",
        b"GEOSEARCHSTORE": b"geosearchstore",
        b"GEORADIUS": b"georadiusstore",
        b"GEORADIUSBYMEMBER": b"georadiusstore",
    },
    LIST: {b"SORT": b"sortstore"},
    STRING: {b"BITOP": b"set"},
}
"""Class -> command that replaces its destination -> event."""

RULES: Final[dict[bytes, Rule]] = {
    **{
        command: _always(letter, event)
        for letter, events in _ONE_EVENT.items()
        for event, commands in events.items()
        for command in commands
    },
    **{command: _stored(letter, event) for letter, events in _STORING.items() for command, event in events.items()},
    **dict.fromkeys((b"DEL", b"UNLINK", b"GETDEL", b"DELIFEQ"), _deleted),
    **dict.fromkeys((b"EXPIRE", b"PEXPIRE", b"EXPIREAT", b"PEXPIREAT"), _expire),
    **dict.fromkeys((b"SETEX", b"PSETEX"), _setex),
    **dict.fromkeys((b"MSET", b"MSETNX"), _many_set),
    **dict.fromkeys((b"RENAME", b"RENAMENX"), _replaced(b"rename_from", b"rename_to")),
    b"HEXPIRE": _hexpire(1000, relative=True),
    b"HPEXPIRE": _hexpire(1, relative=True),
    b"HEXPIREAT": _hexpire(1000, relative=False),
    b"HPEXPIREAT": _hexpire(1, relative=False),
    b"HGETEX": _hgetex,
    b"HSETEX": _hsetex,
    b"SET": _set,
    b"MSETEX": _many_set_with_options,
    b"GETEX": _getex,
    b"ZADD": _zadd,
    b"LMPOP": _popped(LIST, {b"LEFT": b"lpop", b"RIGHT": b"rpop"}),
    b"ZMPOP": _popped(ZSET, {b"MIN": b"zpopmin", b"MAX": b"zpopmax"}),
    b"LMOVE": _move_element,
    b"RPOPLPUSH": _pop_and_push,
    b"SMOVE": _smove,
    b"RESTORE": _restore,
    b"COPY": _replaced(b"", b"copy_to"),
    b"MOVE": _replaced(b"move_from", b"move_to"),
}
"""The events of every command that has any."""
