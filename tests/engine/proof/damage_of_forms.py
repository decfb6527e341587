"""Damage to values in a form of our own, and the violations that an audit finds of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.batch.ranks import rank_counts
from engine.layouts.layout import Form, Kind
from engine.store.memory import MemoryStore
from engine.store.store import EXPIRY_CF, Store
from engine.tables.expiry_index import entry_at, place_of
from engine.values.encoding import pack_u64
from tests.engine.proof.damage_of_streams import OF_STREAM_COUNTS, OF_STREAMS
from tests.engine.proof.lived import (
    DATA,
    LAYOUT,
    METADATA,
    RANKS,
    TIMES,
    below,
    describe,
    key_of,
    metadata_of,
    prefix_of,
)
from tests.engine.stored import put, stored

Plant = Callable[[MemoryStore], None]


def expiry_of(store: Store, name: bytes) -> bytes:
    """The key of the expiry entry of a key."""
    metadata = metadata_of(store, name)
    return entry_at(place_of(metadata.expire_ms, metadata.times), key_of(name))


def move(store: MemoryStore, of: Kind | str, record: tuple[bytes, bytes], key: bytes) -> None:
    """Move a record to another key."""
    put(store, of, (record[0], None), (key, record[1]))


def _block(store: Store, level: bytes, at: int) -> tuple[bytes, bytes]:
    return below(store, RANKS, b"ranked", level)[at]


def _new_end(store: MemoryStore) -> None:
    """Let a block end somewhere else, where no group does."""
    record = _block(store, rank_counts.BLOCK, 0)
    move(store, RANKS, record, record[0][:-2])


def _field_gone(store: MemoryStore) -> None:
    """Take a field, and leave its time to live."""
    put(store, DATA, (prefix_of(store, b"timed") + b"a", None))
    describe(store, b"timed", size=2)


def _unversioned(store: MemoryStore) -> None:
    """Take its version out of the metadata of a string in fragments."""
    packed, version = stored(store, METADATA)[key_of(b"zeros")], pack_u64(metadata_of(store, b"zeros").version)
    put(store, METADATA, (key_of(b"zeros"), packed.replace(version, bytes(8))))


def _followed(text: str) -> list[str]:
    """What is said of a time in the metadata, but where it follows from others there."""
    return [] if LAYOUT.stamps_fields else [text]


_OF_STAMPS: Final[dict[str, tuple[Plant, list[str]]]] = {
    "another time in front of a field": (
        lambda store: put(store, DATA, (prefix_of(store, b"timed") + b"a", pack_u64(9) + b"1")),
        ["times: b'timed' of database 7 has b'*' in front of the field b'a', whose time is *"],
    ),
    "no time in front of a field": (
        lambda store: put(store, DATA, (prefix_of(store, b"timed") + b"a", b"1")),
        ["times: b'timed' of database 7 has b'1' in front of the field b'a', whose time is *"],
    ),
    "the latest time": (
        lambda store: describe(store, b"timed", times=metadata_of(store, b"timed").times._replace(latest_ms=1)),  # type: ignore[union-attr]
        ["times: b'timed' of database 7 has * ms as the latest time of a field, by its metadata 1"],
    ),
}
"""Where each value of a hash with field times begins with its field's time."""

_STAMPED: Final = LAYOUT.stamps_fields

OF_FORMS: Final[dict[Form, dict[str, tuple[Plant, list[str]]]]] = {
    Form.FRAGMENTS: {
        "a fragment behind the end": (
            lambda store: put(store, DATA, (prefix_of(store, b"large") + pack_u64(70), b"x")),
            ["fragments: b'large' of database 7 has a fragment 70 after its 200001 bytes"],
        ),
        "a fragment that is too long": (
            lambda store: put(store, DATA, (prefix_of(store, b"large") + pack_u64(0), b"x" * 4097)),
            ["fragments: b'large' of database 7 has 4097 bytes in fragment 0, which may have 1 to 4096"],
        ),
        "zeros at the end of a fragment": (
            lambda store: put(store, DATA, (prefix_of(store, b"large") + pack_u64(0), b"x\0")),
            ["fragments: b'large' of database 7 has zeros at the end of fragment 0"],
        ),
        "a short string in fragments": (
            lambda store: describe(store, b"zeros", size=100),
            ["fragments: b'zeros' of database 7 is in fragments, with a length of 100 bytes"],
        ),
        "a long string in its metadata": (
            lambda store: describe(store, b"s", value=bytes(131073)),
            ["fragments: b's' of database 7 has 131073 bytes in its metadata"],
        ),
        "a string in fragments without a version": (
            _unversioned,
            ["unreadable: b'zeros' of database 7 has fragments and no version"],
        ),
    },
    Form.RANK_COUNTS: {
        "a block's count": (
            lambda store: put(store, RANKS, (_block(store, rank_counts.BLOCK, 3)[0], pack_u64(5))),
            ["ranks: b'ranked' of database 7 has * members in a block, by its count 5"],
        ),
        "a group's count": (
            lambda store: put(store, RANKS, (_block(store, rank_counts.GROUP, 0)[0], pack_u64(5))),
            ["ranks: b'ranked' of database 7 has * members in a group, by its count 5"],
        ),
        "a count that is none": (
            lambda store: put(store, RANKS, (_block(store, rank_counts.GROUP, 0)[0], b"")),
            ["unreadable: b'ranked' of database 7 has a group without a count"],
        ),
        "an end that moved": (
            _new_end,
            ["ranks: * members in a block, by its count *", "ranks: * members in a block, by its count *"],
        ),
        "the last block is gone": (
            lambda store: put(store, RANKS, (_block(store, rank_counts.BLOCK, -1)[0], None)),
            ["ranks: b'ranked' of database 7 has no last block", "ranks: * has a group that ends where no block does"],
        ),
        "the last group is gone": (
            lambda store: put(store, RANKS, (_block(store, rank_counts.GROUP, -1)[0], None)),
            ["ranks: b'ranked' of database 7 has no last group"],
        ),
        "a large set that says it has no counts": (
            lambda store: describe(store, b"ranked", ranked=False),
            ["ranks: b'ranked' * has * members and no rank counts", "ranks: b'ranked' * records in *, where *"],
        ),
    },
    Form.FIELD_TIMES: {
        "a time by field alone": (
            lambda store: put(store, TIMES, (below(store, TIMES, b"timed", b"\1")[0][0], None)),
            ["times: b'timed' of database 7 has a time to live for the field b'a' that is not among those by time"],
        ),
        "a time by time alone": (
            lambda store: put(store, TIMES, (below(store, TIMES, b"timed", b"\0")[0][0], None)),
            ["times: * has the field b'a' among those by time", "times: * 1 fields with a time to live, by *"]
            + (["times: * in front of the field b'a', whose time is *"] if _STAMPED else []),
        ),
        "a time of a field that is gone": (
            _field_gone,
            [
                "times: * for the field b'a', which is not there",
                *_followed("times: * ms as the time when it dies, by *"),
            ],
        ),
        "how many fields have a time": (
            lambda store: describe(store, b"timed", times=metadata_of(store, b"timed").times._replace(timed=1)),  # type: ignore[union-attr]
            ["times: b'timed' of database 7 has 2 fields with a time to live, by its metadata 1"],
        ),
        "the soonest time": (
            lambda store: describe(store, b"timed", times=metadata_of(store, b"timed").times._replace(soonest_ms=1)),  # type: ignore[union-attr]
            [
                "times: b'timed' of database 7 has * ms as the soonest time of a field, by its metadata 1",
                *("expiry: * loses a field at 1 ms and is not in the index", "expiry: * another time than its *, 1 ms"),
            ],
        ),
        "when a hash dies": (
            lambda store: describe(store, b"whole", times=metadata_of(store, b"whole").times._replace(own_expire_ms=9)),  # type: ignore[union-attr]
            [
                *_followed("times: b'whole' of database 7 has 9 ms as the time when it dies, by its metadata *"),
                *("expiry: * dies at 9 ms and is not in the index", "expiry: * another time than its key, 9 ms"),
            ],
        ),
        "a field's expiry entry without a value": (
            lambda store: put(store, EXPIRY_CF, (expiry_of(store, b"timed"), b"")),
            ["expiry: the entry * has the value '', which is not that of its key"],
        ),
        "no expiry entry of a field": (
            lambda store: put(store, EXPIRY_CF, (expiry_of(store, b"timed"), None)),
            ["expiry: * loses a field at * ms and is not in the index"],
        ),
        **(_OF_STAMPS if _STAMPED else {}),
    },
    Form.STREAMS: OF_STREAMS,
    Form.STREAM_COUNTS: OF_STREAM_COUNTS,
}  # fmt: skip
"""By form, what is done to a good state, and what the audit says."""
