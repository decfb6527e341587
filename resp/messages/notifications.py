"""Keyspace notifications through Pub/Sub, for the partitions of one worker.

    __keyspace@<db>__:<key> <event>      with K in `notify-keyspace-events`
    __keyevent@<db>__:<event> <key>      with E

The other letters choose classes of events: g $ l s h z x e t d n, and A for all of them but n. No letter, no work.
`m` is taken, and nothing is told: a read here leaves no trace. See https://valkey.io/topics/notifications/.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from engine.apply.records import Applied, Modified
from engine.cleaning.sweep import Swept
from engine.commands.keyspace_events import EXPIRED, GENERIC, HASH, Change, KeyspaceEvent
from engine.commands.registry import SPECS
from engine.model import NONE
from resp.messages.pubsub import PubSub

_CLASSES: Final = {letter: 1 << at for at, letter in enumerate("g$lshzxetdnmKE")}
_KEYSPACE: Final = _CLASSES["K"]
_KEYEVENT: Final = _CLASSES["E"]
_ALL: Final = sum(_CLASSES[letter] for letter in "g$lshzxetd")
_EVENTS: Final = _ALL | _CLASSES["n"]


class Notifications:
    """Publishes keyspace notifications to Pub/Sub.

    Attributes:
        flags: what to tell, as `parse` gives it; 0: nothing, so no machine need note what it modifies.
    """

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self.flags = 0

    @staticmethod
    def parse(letters: str) -> int:
        """The flags for a checked value of `notify-keyspace-events`; 0 when it chooses no channel or no event."""
        flags = 0
        for letter in letters:
            flags |= _ALL if letter == "A" else _CLASSES[letter]
        return flags if flags & (_KEYSPACE | _KEYEVENT) and flags & _EVENTS else 0

    def on_applied(self, applied: Applied) -> None:
        """Publish what a committed batch has modified."""
        if self.flags and self._pubsub.is_heard:
            for event in events_of(applied):
                self._tell(event)

    def on_swept(self, swept: Swept) -> None:
        """Publish the keys and fields that were removed because they expired."""
        if self.flags and self._pubsub.is_heard:
            for event in _events_of_expiry(swept):
                self._tell(event)

    def _tell(self, event: KeyspaceEvent) -> None:
        flags = self.flags
        if not flags & _CLASSES[event.letter]:
            return
        if flags & _KEYSPACE:
            self._pubsub.publish(b"__keyspace@%d__:%b" % (event.db, event.key), event.name)
        if flags & _KEYEVENT:
            self._pubsub.publish(b"__keyevent@%d__:%b" % (event.db, event.name), event.key)


def events_of(applied: Applied) -> Iterator[KeyspaceEvent]:
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
        rule = SPECS[name].rule
        if rule is not None:
            yield from rule(
                args, [_change(modified[place], applied.further.get(place, ())) for place in range(at, end)]
            )
        at = end


def _expired(applied: Applied) -> list[tuple[int, KeyspaceEvent]]:
    """What was due, with the place in `modified` before which it is told."""
    events = [(place, KeyspaceEvent(EXPIRED, b"expired", db, key)) for place, db, key in applied.expired]
    for place, db, key, dead in applied.expired_fields:
        events.append((place, KeyspaceEvent(HASH, b"hexpired", db, key)))
        if dead:
            events.append((place, KeyspaceEvent(GENERIC, b"del", db, key)))
    return sorted(events, key=itemgetter(0))


def _change(modified: Modified, further: tuple[bytes, ...]) -> Change:
    _, db, _, _, _, key, before, after, now_ms = modified
    return Change(db, key, created=before == NONE, gone=after == NONE, now_ms=now_ms, further=further)


def _events_of_expiry(swept: Swept) -> Iterator[KeyspaceEvent]:
    """The events of what has expired by itself. A hash that loses its last fields is deleted, as Redis sees it."""
    keys = dict.fromkeys(swept.keys)
    for db, key, _ in swept.fields:
        yield KeyspaceEvent(HASH, b"hexpired", db, key)
        if (db, key) in keys:
            del keys[db, key]
            yield KeyspaceEvent(GENERIC, b"del", db, key)
    for db, key in keys:
        yield KeyspaceEvent(EXPIRED, b"expired", db, key)
