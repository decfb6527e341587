"""The differences from Redis that the tests allow a layout: what `Layout.differences` declares, and no more.

Who compares a layout with Redis asks here what to expect of it. Of a layout that declares nothing this is what Redis
replies. What `UNCOUNTED` allows, engine/layouts/camellia/FORMAT.md describes:

    replies       HSET and SADD count each element given; so do HDEL and SREM where there is a key. Where there is none
                  for Redis they may do so too: it may have lost its last element
    DBSIZE        counts keys that have lost their last element
    watches       HDEL and SREM of what is not there and SADD of what is there break them
    time to live  HSET, HMSET and SADD go on with such a key, and with the time to live that it had
    size          a grave says that nobody counted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from engine.layouts.layout import Difference, Layout
from engine.layouts.records import is_without_elements
from engine.model import UNCOUNTED, Metadata
from engine.store.store import Store
from tests.layouts import layout_of

_ARGUMENTS: Final = {b"HSET": 2, b"SADD": 1, b"HDEL": 1, b"SREM": 1}
"""The commands that count what they write, and how many arguments stand for one element."""

_REMOVING: Final = frozenset({b"HDEL", b"SREM"})
_TAKING: Final = _REMOVING | {b"SPOP", b"SMOVE", b"HGETDEL"}
"""The commands that may take the last element of the key that they name first."""

_GOING_ON: Final = frozenset({b"HSET", b"HMSET", b"SADD"})

_SETTLED_MS: Final = b"4102444800777"  # the year 2100: a time that both sides compare to the millisecond


def is_uncounted(layout: Layout | None = None) -> bool:
    """Whether a layout, that of the session if None, declares that it keeps no count of hashes and sets."""
    return Difference.UNCOUNTED in (layout or layout_of()).differences


def count_of(size: int) -> int:
    """What the metadata or the grave of a hash or set of `size` elements says."""
    return UNCOUNTED if is_uncounted() else size


def asked_before(name: bytes, args: Sequence[Any]) -> list[list[bytes]]:
    """What to ask Redis before a command, so that `replies` knows what it must know."""
    return [[b"EXISTS", args[0]]] if _is_counting(name, args) and name.upper() in _REMOVING else []


def replies(name: bytes, args: Sequence[Any], reply: Any, existed: int = 1) -> tuple[Any, ...]:
    """What may be the reply where that of Redis is `reply`; `existed`: whether it had the key before."""
    if not _is_counting(name, args) or not isinstance(reply, int):
        return (reply,)
    name = name.upper()
    given = (len(args) - 1) // _ARGUMENTS[name]
    return (given,) if existed or name not in _REMOVING else (0, given)


def breaks_watches(name: bytes) -> bool:
    """Whether a command may break a watch on its key where it changes nothing for Redis."""
    return is_uncounted() and name in _ARGUMENTS


def is_counted_without_elements(store: Store, layout: Layout, metadata_key: bytes, metadata: Metadata) -> bool:
    """Whether DBSIZE counts a key that no command finds."""
    return is_uncounted(layout) and is_without_elements(store, layout, metadata_key, metadata)


class Settling:
    """Says what has to follow the commands of a sequence, so that both sides have the same times to live again.

    A key that may have lost its last element, and is written then, is given a time to live.
    """

    def __init__(self) -> None:
        self._taken: set[bytes] = set()

    def after(self, name: bytes, args: Sequence[Any]) -> tuple[bytes, tuple[bytes, ...]] | None:
        """What has to follow this command, of which all commands before it were told, or None."""
        name, key = name.upper(), args[0] if args else b""
        if name in _TAKING:
            self._taken.add(key)
        if is_uncounted() and name in _GOING_ON and key in self._taken:
            return b"PEXPIREAT", (key, _SETTLED_MS)
        return None


def _is_counting(name: bytes, args: Sequence[Any]) -> bool:
    return is_uncounted() and name.upper() in _ARGUMENTS and len(args) > 1
