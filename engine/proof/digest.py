"""The digest of a logical state at a time: equal contents have equal digests.

It covers the live keys of all databases, the stored scripts and libraries, and nothing else: it is blind to keys that
are due, orphans, versions, positions, batch sizes, the layout and the number of partitions. The digests of a topic's
partitions add up to the topic's; a script or library counts in each partition that has it.

    digest of a state   sum of the digests of its live keys, modulo 2**256
    digest of a key     BLAKE2b-256, personalized `slotlog digest 1`, of
                        [db:8][length:4][name][type:1][expire_ms:8] and [length:4][bytes] for each piece of content
                        in the order of `engine.proof.walk.LiveKey`; integers are big-endian. Of a hash with fields that
                        have a time to live, for each of them, in order of their bytes, there follow
                        [length:4][field] and [8:4][expire_ms:8]: a field that does not stand behind the one before it
                        is the first of these
    digest of a script  as that of a key in database 0: its name the 20 bytes of its SHA-1, its type 255, its pieces
                        whether it was loaded, one byte, and its source
    digest of a library likewise: its type 254, its piece what stands in its record

A sum finds every accident; against somebody who makes up states to collide it proves nothing, and need not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from struct import Struct
from typing import Any, Final

from engine.layouts.layout import Layout
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.proof.walk import live_keys
from engine.store.store import SYSTEM_CF, Store
from engine.tables.libraries import PREFIX as LIBRARY
from engine.tables.scripts import LOADED_AT
from engine.tables.scripts import PREFIX as SCRIPT
from engine.values.encoding import U32, pack_score, pack_u64, prefix_end

_MODULUS: Final = 1 << 256
_DIGEST_BYTES: Final = 32
KEY: Final = 0
SCRIPT_TYPE: Final = 255
LIBRARY_TYPE: Final = 254
_NO_KEYS: Final = frozenset({SCRIPT_TYPE, LIBRARY_TYPE})
_PERSON: Final = b"slotlog digest 1"
_DB_AND_LENGTH: Final = Struct(">QI")
_TYPE_AND_EXPIRE: Final = Struct(">BQ")


Item = tuple[int, bytes, int]
"""Database and name of a key, and `KEY`; or 0, the name and the type of a script or library."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of `keys` live keys. Prints as 64 hexadecimal digits; `+` is that of two disjoint states together."""

    value: int = 0
    keys: int = 0

    def __str__(self) -> str:
        return f"{self.value:064x}"

    def __add__(self, other: Digest) -> Digest:
        return Digest((self.value + other.value) % _MODULUS, self.keys + other.keys)


def digest(store: Store, layout: Layout, now_ms: int) -> Digest:
    """The digest of everything in `store` that is alive at `now_ms`, usually the partition's clock.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    result = Digest()
    for result in running_digest(store, layout, now_ms):  # noqa: B007 - the last one is the result
        pass
    return result


def running_digest(store: Store, layout: Layout, now_ms: int) -> Iterator[Digest]:
    """The digest so far, after each key: for progress. The last one is `digest`; a state without keys gives none."""
    result = Digest()
    for (_, _, kind), value in item_digests(store, layout, now_ms):
        result += Digest(value, kind not in _NO_KEYS)
        yield result


def item_digests(store: Store, layout: Layout, now_ms: int) -> Iterator[tuple[Item, int]]:
    """The digest of each live key, script and library by itself.

    Raises:
        CorruptionError: stored bytes are damaged.
    """
    for db, name, type_code, expire_ms, content, field_times in live_keys(store, layout, now_ms):
        times = (piece for field, ms in field_times for piece in (field, pack_u64(ms)))
        yield (db, name, KEY), key_digest(db, name, type_code, expire_ms, chain(content, times))
    for name, value in store.scan(SYSTEM_CF, SCRIPT, prefix_end(SCRIPT)):
        pieces = value[LOADED_AT : LOADED_AT + 1], value[LOADED_AT + 1 :]
        yield (0, name[len(SCRIPT) :], SCRIPT_TYPE), key_digest(0, name[len(SCRIPT) :], SCRIPT_TYPE, 0, pieces)
    for name, value in store.scan(SYSTEM_CF, LIBRARY, prefix_end(LIBRARY)):
        yield (0, name[len(LIBRARY) :], LIBRARY_TYPE), key_digest(0, name[len(LIBRARY) :], LIBRARY_TYPE, 0, (value,))


def combine(digests: Iterable[Digest]) -> Digest:
    """The digest of the states of several partitions together."""
    return sum(digests, start=Digest())


def key_digest(db: int, name: bytes, type_code: int, expire_ms: int, content: Iterable[bytes]) -> int:
    """The digest of one live key; `content` as in `engine.proof.walk.LiveKey`, then the times to live of fields."""
    state = blake2b(digest_size=_DIGEST_BYTES, person=_PERSON)
    state.update(_DB_AND_LENGTH.pack(db, len(name)) + name + _TYPE_AND_EXPIRE.pack(type_code, expire_ms))
    for piece in content:
        state.update(U32.pack(len(piece)) + piece)
    return int.from_bytes(state.digest(), "big")


def digest_of_items(items: Iterable[tuple[int, bytes, int, int, Any]]) -> Digest:
    """The digest of a state that is given as plain values, such as a test's model keeps them.

    Args:
        items: (db, name, type code, expire_ms, value) of each live key. The value of a string is bytes, of a list a
            sequence of bytes, of a set any collection of bytes, of a hash a mapping from bytes to bytes, of a sorted
            set a mapping from bytes to float, of a stream the pieces of `LiveKey.content`.
    """
    return combine(
        Digest(key_digest(db, name, type_code, expire_ms, _PIECES[type_code](value)), 1)
        for db, name, type_code, expire_ms, value in items
    )


def _pieces_of_hash(value: Mapping[bytes, bytes]) -> Iterator[bytes]:
    for field in sorted(value):
        yield field
        yield value[field]


def _pieces_of_zset(value: Mapping[bytes, float]) -> Iterator[bytes]:
    for member in sorted(value):
        yield member
        yield pack_score(value[member])


_PIECES: Final[dict[int, Any]] = {
    STRING: lambda value: (value,),
    LIST: iter,
    SET: sorted,
    HASH: _pieces_of_hash,
    ZSET: _pieces_of_zset,
    STREAM: iter,
}
