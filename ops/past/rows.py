"""The history of a key as a reply: the last events, each as a map."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from engine.errors import REPLY_TOO_LARGE, CommandError
from engine.limits import REPLY_BYTES_MAX
from engine.values.replies import Map, Named, Pairs, Reply, pack
from ops.past.history import Touch, Value

_PAIRED: Final = (Map, Named, Pairs)


class Rows:
    """The last rows of a history, within the bound of a reply.

    Args:
        count: how many are kept.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: deque[tuple[Reply, int]] = deque()
        self._size = 0

    def add(self, touch: Touch) -> None:
        """Keep the row of an event; the first one goes where there are more than are wanted.

        Raises:
            CommandError: they are too much for one reply.
        """
        row = row_of(touch)
        size = len(pack(row))
        self._kept.append((row, size))
        self._size += size
        if len(self._kept) > self._count:
            self._size -= self._kept.popleft()[1]
        if self._size > REPLY_BYTES_MAX:
            raise CommandError(REPLY_TOO_LARGE)

    @property
    def reply(self) -> Reply:
        """All that are kept, in order."""
        return [row for row, _ in self._kept]


def row_of(touch: Touch) -> Reply:
    """An event as a map. Errors stand in it as their texts, so that no client takes the whole for one."""
    shown: list[tuple[bytes, Reply]] = [
        (b"offset", touch.offset),
        (b"time_ms", touch.time_ms),
        (b"command", list(touch.command)),
        (b"id", touch.event_id),
        (b"meta", _plain(touch.meta)),
        (b"outcome", touch.outcome.encode()),
        (b"reply", _plain(touch.reply)),
        (b"changed", int(touch.changed)),
    ]
    if touch.before is not None:
        shown += [(b"before", _value(touch.before)), (b"after", _value(touch.after))]
    return Map(shown)


def _value(value: Value | None) -> Reply:
    if value is None or value.type == b"none":
        return None
    return Map([(b"type", value.type), (b"value", _plain(value.content)), (b"expire_ms", value.expire_ms)])


def _plain(value: Any) -> Reply:
    """A reply, or what msgpack may hold, without errors and maps of Python's."""
    if isinstance(value, CommandError):
        return value.message.encode(errors="surrogateescape")
    if isinstance(value, dict):
        return Map([(_plain(name), _plain(each)) for name, each in value.items()])
    if isinstance(value, _PAIRED):
        return type(value)([(_plain(name), _plain(each)) for name, each in value])
    if isinstance(value, list):
        return type(value)(_plain(each) for each in value)
    return value
