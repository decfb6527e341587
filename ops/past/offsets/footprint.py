"""The footprint of an event: what it may touch, as numbers that an index can hold.

Two events that share no number, and of which neither reaches everywhere, do not matter to each other: each has the same
outcome without the other. Numbers stand for keys (of any database), idempotency keys and sessions. They are checksums,
so two things may have one number; then an event is looked at that matters nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from engine.apply.machine import Record
from engine.commands.registry import Spec, find, keys_of
from slotlog.shared.errors import EventError
from slotlog.shared.limits import TIME_MS_MAX

_ID: Final = 1
_SESSION: Final = 2
_NOWHERE: Final = frozenset({b"TICK", b"SELECT", b"UNWATCH"})
"""Name no key, and touch none."""


class Footprint(NamedTuple):
    """The reach of an event.

    Attributes:
        tokens: numbers of its keys, its id and its session.
        everywhere: it may touch any key, whatever it names, as FLUSHALL does.
        opaque: nobody knows what it reads: a script; or it sets the clock back.
    """

    tokens: frozenset[int] = frozenset()
    everywhere: bool = False
    opaque: bool = False


_OPAQUE: Final = Footprint(opaque=True)


def token_of(key: bytes) -> int:
    """The number of a key."""
    return crc32(key)


def footprint_of(event: Record) -> Footprint:
    """What an event may touch."""
    _, time_ms, name, args, _, event_id, session = event
    if not 0 <= time_ms <= TIME_MS_MAX:
        return _OPAQUE
    tokens: set[int] = set()
    everywhere = False
    for command, *words in args if name == b"EXEC" else [[name, *args]]:
        try:
            spec = find(command.upper())
            tokens.update(crc32(key) for key in keys_of(spec.name, words))
        except EventError:  # a dead letter: what it names is still of interest to who asks for a history
            continue
        if _is_opaque(spec, words):
            return _OPAQUE
        everywhere |= spec.keyless and spec.name not in _NOWHERE
    if event_id is not None:
        tokens.add(crc32(event_id, _ID))
    if session is not None:
        tokens.add(crc32(session, _SESSION))
    return Footprint(frozenset(tokens), everywhere)


def _is_opaque(spec: Spec, words: list[bytes]) -> bool:
    return spec.runs_others or spec.name == b"SETCLOCK" or (spec.patterns is not None and bool(spec.patterns(words)))
