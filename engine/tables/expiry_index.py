"""The expiry index: one entry for each key that has a time to live, or a field with one.

    CF expiry   [listed_ms:8][metadata key]  ->  empty   the key dies then
                                             ->  01      the key is a hash, and its soonest field dies then
    CF local    cursor/expiry                ->  the first entry that a sweep has not walked past, or where it would be

A hash with field times stands at the sooner of its own death and that of its soonest field. That its last field takes
the hash with it follows from the fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from engine.errors import CorruptionError
from engine.store.store import EXPIRY_CF, LOCAL_CF, Store
from engine.values.encoding import U64, pack_u64, parse_u64

EXPIRY_CURSOR: Final = b"cursor/expiry"
_KEY: Final = b""
_FIELD: Final = b"\1"


class Deaths(Protocol):
    """The times at which a hash (0: never) and its first field expire, in ms."""

    @property
    def own_expire_ms(self) -> int:
        """When the key expires."""
        ...

    @property
    def soonest_ms(self) -> int:
        """When the first field expires."""
        ...


def place_of(expire_ms: int, times: Deaths | None) -> int:
    """Where a key with this `expire_ms` and these `times` of its fields is listed: a time in ms, 0 when it is not.

    Below zero it is the time at which its soonest field dies: the two kinds of entry differ at one time as well.
    """
    if times is None:
        return expire_ms
    own_ms, soonest_ms = times.own_expire_ms, times.soonest_ms
    return -soonest_ms if soonest_ms > 0 and not 0 < own_ms <= soonest_ms else own_ms


def entry_at(place: int, metadata_key: bytes) -> bytes:
    """The entry of a key that is listed at `place`, which is not 0."""
    return pack_u64(abs(place)) + metadata_key


def move_entry(expiry: dict[bytes, bytes | None], metadata_key: bytes, old: int, new: int) -> None:
    """List a key at `new` instead of `old`, in a batch; 0: nowhere. Hot path: `entry_at`, written out."""
    if old:
        expiry[pack_u64(old if old > 0 else -old) + metadata_key] = None
    if new > 0:
        expiry[pack_u64(new) + metadata_key] = _KEY
    elif new:
        expiry[pack_u64(-new) + metadata_key] = _FIELD


def parse_entry(entry: bytes, content: bytes) -> tuple[int, bytes]:
    """The (place, metadata key) of a record that `move_entry` wrote.

    Raises:
        CorruptionError: it is none.
    """
    listed_ms = parse_u64(entry[: U64.size]) if len(entry) > U64.size else 0
    if not listed_ms or content not in {_KEY, _FIELD}:
        message = f"expiry entry {entry.hex()} cannot be read"
        raise CorruptionError(message)
    return listed_ms if content == _KEY else -listed_ms, entry[U64.size :]


def due_entries(store: Store, clock_ms: int) -> Iterator[bytes]:
    """The entries that are due at `clock_ms`, the first one first, from where the sweep stands."""
    end = pack_u64(clock_ms + 1)
    cursor = store.getter(LOCAL_CF)(EXPIRY_CURSOR) or b""
    return (entry for entry, _ in store.scan(EXPIRY_CF, min(cursor, end), end))
