"""Keyspace events of the commands that set strings: what their options decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.commands.keyspace_events import EXPIRED, GENERIC, STRING, Change, KeyspaceEvent, always, expire_set
from engine.values.numbers import parse_int

_EXPIRY_OPTIONS: Final = frozenset({b"EX", b"PX", b"EXAT", b"PXAT"})


def of_set(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """SET: `expire` too where an option gives a time to live."""
    return _set(changes, expires=_has_expiry(args[2:]))


def of_setex(_args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """SETEX and PSETEX."""
    return _set(changes, expires=True)


def of_getex(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """GETEX: it modifies a key only where it has an option."""
    if args[1].upper() == b"PERSIST":
        return always(GENERIC, b"persist")(args, changes)
    return expire_set(args, changes)


def of_mset(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """MSET: a key that is named twice is set twice."""
    return _many_set(args[::2], changes, expires=False)


def of_msetex(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    """MSETEX: `numkeys key value …`, then the options of SET."""
    end = 1 + 2 * (parse_int(args[0]) or 0)
    return _many_set(args[1:end:2], changes, expires=_has_expiry(args[end:]))


def _many_set(keys: list[bytes], changes: list[Change], *, expires: bool) -> Iterator[KeyspaceEvent]:
    by_key = {change.key: change for change in changes}
    for key in keys:
        change = by_key.get(key)
        if change is not None:
            yield from _set([change], expires=expires)
            by_key[key] = change._replace(created=False)


def _set(changes: list[Change], *, expires: bool) -> Iterator[KeyspaceEvent]:
    for change in changes:
        if change.gone:
            yield change.event(EXPIRED, b"expired")
            continue
        yield from change.happened(STRING, b"set")
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
