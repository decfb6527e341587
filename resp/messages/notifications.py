"""Keyspace notifications through Pub/Sub, for the partitions of one worker.

    __keyspace@<db>__:<key> <event>      with K in `notify-keyspace-events`
    __keyevent@<db>__:<event> <key>      with E

The other letters choose classes of events: g $ l s h z x e t d n, and A for all of them but n. No letter, no work.
`m` is taken, and nothing is told: a read here leaves no trace. See https://valkey.io/topics/notifications/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.apply.records import Applied
from engine.cleaning.sweep import Swept
from resp.catalog.keyspace_events import EXPIRED, GENERIC, HASH, Event, events_of
from resp.messages.pubsub import PubSub

_CLASSES: Final = {letter: 1 << at for at, letter in enumerate("g$lshzxetdnmKE")}
_KEYSPACE: Final = _CLASSES["K"]
_KEYEVENT: Final = _CLASSES["E"]
_ALL: Final = sum(_CLASSES[letter] for letter in "g$lshzxetd")
_EVENTS: Final = _ALL | _CLASSES["n"]


class Notifications:
    """Tells Pub/Sub what happened to keys.

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
        """Tell what a batch, now committed, has modified."""
        if self.flags and self._pubsub.is_heard:
            for event in events_of(applied):
                self._tell(event)

    def on_swept(self, swept: Swept) -> None:
        """Tell what was removed because its time to live was over."""
        if self.flags and self._pubsub.is_heard:
            for event in _events_of_expiry(swept):
                self._tell(event)

    def _tell(self, event: Event) -> None:
        flags = self.flags
        if not flags & _CLASSES[event.letter]:
            return
        if flags & _KEYSPACE:
            self._pubsub.publish(b"__keyspace@%d__:%b" % (event.db, event.key), event.name)
        if flags & _KEYEVENT:
            self._pubsub.publish(b"__keyevent@%d__:%b" % (event.db, event.name), event.key)


def _events_of_expiry(swept: Swept) -> Iterator[Event]:
    """The events of what has expired by itself. A hash that loses its last fields is deleted, as Redis sees it."""
    keys = dict.fromkeys(swept.keys)
    for db, key, _ in swept.fields:
        yield Event(HASH, b"hexpired", db, key)
        if (db, key) in keys:
            del keys[db, key]
            yield Event(GENERIC, b"del", db, key)
    for db, key in keys:
        yield Event(EXPIRED, b"expired", db, key)
