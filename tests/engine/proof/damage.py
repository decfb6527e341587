"""Damage of each kind to the state of tests/engine/proof/lived.py, and what an audit has to say of it."""

from __future__ import annotations

from typing import Final

from engine.layouts.layout import Form, Kind
from engine.limits import DEDUP_WINDOW_MS
from engine.model import SET, Metadata
from engine.store.memory import MemoryStore
from engine.store.store import DEDUP_CF, EXPIRY_CF, GRAVEYARD_CF, LOCAL_CF, SYSTEM_CF, Store
from engine.tables.expiry_index import EXPIRY_CURSOR
from engine.tables.graveyard import CURSOR as GRAVEYARD_CURSOR
from engine.tables.graveyard import parse_grave
from engine.tables.libraries import PREFIX, Function, library_of, pack
from engine.values.encoding import U32, pack_score, pack_u64
from slotlog.shared.slots import slot
from tests.engine.harness import NOW_MS, family
from tests.engine.proof.damage_of_forms import OF_FORMS, Plant, expiry_of, move
from tests.engine.proof.lived import (
    DATA,
    ELEMENTS,
    LAYOUT,
    METADATA,
    RANKS,
    SCORES,
    SESSIONS,
    below,
    describe,
    grave_of,
    key_of,
    metadata_of,
    prefix_of,
)
from tests.engine.stored import put, stored


def _watch(store: Store) -> tuple[bytes, bytes]:
    return next(
        (key, value) for key, value in family(store, SYSTEM_CF).items() if key.startswith(b"watch/session of ann")
    )


def _dedup(store: Store, event_id: bytes) -> tuple[bytes, bytes]:
    return next((key, value) for key, value in family(store, DEDUP_CF).items() if key.endswith(event_id))


def one_version(store: MemoryStore) -> None:
    """Let a second set have the version of the first one."""
    version = metadata_of(store, b"e").version
    key = key_of(b"second")
    put(store, METADATA, (key, LAYOUT.pack_metadata(Metadata(SET, 0, version, 1))))
    put(store, DATA, (LAYOUT.prefix(DATA, key, version) + b"a", b""))
    put(store, SYSTEM_CF, (b"count/0/4", pack_u64(2)))


def _wrong_slot(store: MemoryStore) -> None:
    """Let an inline string stand in another slot."""
    key = LAYOUT.metadata_key(0, slot(b"s") ^ 1, b"s")
    move(store, METADATA, (key_of(b"s"), stored(store, METADATA)[key_of(b"s")]), key)


def _wrong_database(store: MemoryStore) -> None:
    """Put a key where no database is."""
    put(store, METADATA, (LAYOUT.metadata_key(16, slot(b"s"), b"s"), stored(store, METADATA)[key_of(b"s")]))


def _dead_prefix(store: Store, name: bytes) -> bytes:
    """What the records of a dead key begin with."""
    return LAYOUT.prefix(DATA, key_of(name), parse_grave(*grave_of(store, name)).version)


def _emptied(store: MemoryStore) -> None:
    """Take all fields of a hash."""
    put(store, DATA, *((key, None) for key, _ in below(store, DATA, b"h")))
    describe(store, b"h", size=0)


def _library(name: bytes) -> bytes:
    """The record of a library with the function f."""
    return pack(library_of(b"#!lua name=%b\n" % name, (Function(b"f", None, 0),)))


_CF: Final = LAYOUT.families
_RANKED: Final = [f"orphans: * in {_CF[RANKS]}"] if RANKS in _CF else []
_COUNTED: Final = [f"orphans: 1 record in {_CF[Kind.COUNTS]}"] if Kind.COUNTS in _CF else []
_ORPHANS: Final = [f"orphans: 2000 records in {_CF[kind]}" for kind in (ELEMENTS, SCORES)] + _RANKED + _COUNTED
_GRAVES: Final = 4 + (Form.FRAGMENTS in LAYOUT.forms) + (Form.STREAMS in LAYOUT.forms)
"""How many the state has: one of them is of a string in fragments, one of a stream."""
_LATER: Final = 8 + 3 * (Form.STREAMS in LAYOUT.forms)
"""The keys that are made behind the hash `whole`."""
_NO_ELEMENTS: Final = (
    "size: b'h' of database 7 has 0 elements, by its metadata 0"
    if LAYOUT.is_absent is None
    else "counts: 3 keys of type hash in stored database 0, counted 4"  # such a record stands for no key
)

OF_STRING_METADATA: Final = (
    ["unreadable: *has a metadata record, as no string here has"]
    if LAYOUT.earlier is not None and LAYOUT.earlier.is_written
    else []
)
"""What else is said of a string's metadata record, on a layout that writes strings elsewhere."""

_OF_EVERY_LAYOUT: Final[dict[str, tuple[Plant, list[str]]]] = {
    "an orphan": (
        lambda store: put(store, DATA, (LAYOUT.prefix(DATA, key_of(b"h"), 7) + b"f", b"v")),
        [f"orphans: 1 record in {_CF[DATA]} of b'h' of database 7, version 7, which"],
    ),
    "a set's grave is gone": (
        lambda store: put(store, GRAVEYARD_CF, (grave_of(store, b"gone:e")[0], None)),
        [f"orphans: 2 records in {_CF[DATA]} of b'gone:e'"],
    ),
    "a large sorted set's grave is gone": (
        lambda store: put(store, GRAVEYARD_CF, (grave_of(store, b"dead")[0], None)),
        _ORPHANS,
    ),
    "more under a grave than died": (
        lambda store: put(store, DATA, (_dead_prefix(store, b"gone:e") + b"x", b"")),
        [f"graveyard: the dead b'gone:e' of database 7 has 3 records in {_CF[DATA]}, by its grave a set of size 2"],
    ),
    "a grave of the future": (
        lambda store: move(store, GRAVEYARD_CF, grave_of(store, b"dead"), pack_u64(2 * NOW_MS) + pack_u64(1)),
        ["graveyard: the grave of b'dead' of database 7 is of *, the clock stands at *", *_ORPHANS],
    ),
    "a grave of what is alive": (
        lambda store: put(
            store,
            GRAVEYARD_CF,
            (pack_u64(NOW_MS) + pack_u64(metadata_of(store, b"e").version), b"\4" + pack_u64(3) + key_of(b"e")),
        ),
        ["versions: version * is there twice: of the key * and the grave of *"],
    ),
    "a grave that cannot be read": (
        lambda store: put(store, GRAVEYARD_CF, (b"short", b"\4")),
        ["unreadable: the grave 73686f7274 cannot be read"],
    ),
    "a size": (
        lambda store: describe(store, b"h", size=3),
        ["size: b'h' of database 7 has 2 elements, by its metadata 3"],
    ),
    "a member too few": (
        lambda store: put(store, DATA, (prefix_of(store, b"e") + b"a", None)),
        ["size: b'e' of database 7 has 2 elements, by its metadata 3"],
    ),
    "a member with a value": (
        lambda store: put(store, DATA, (prefix_of(store, b"e") + b"a", b"1")),
        ["unreadable: b'e' of database 7 has a member with a value"],
    ),
    "no elements": (
        _emptied,
        [_NO_ELEMENTS],
    ),
    "a hole": (
        lambda store: put(store, DATA, (below(store, DATA, b"l")[2][0], None)),
        ["list: b'l' of database 7 has no element at *", "size: b'l' of database 7 has 5 elements, by its metadata 6"],
    ),
    "an element outside": (
        lambda store: put(store, DATA, (prefix_of(store, b"l") + pack_u64(5), b"x")),
        ["list: b'l' of database 7 has an element at 5, outside of", "size: b'l' of database 7 has 7 elements"],
    ),
    "ends that do not fit": (
        lambda store: describe(store, b"l", tail=metadata_of(store, b"l").tail + 2),
        ["list: b'l' of database 7 has no element at * … *", "list: b'l' of database 7 has 6 elements by its metadata"],
    ),
    "a score record is gone": (
        lambda store: put(store, SCORES, (prefix_of(store, b"z", SCORES) + pack_score(2.5) + b"b", None)),
        ["scores: b'z' of database 7 has no score record for its member b'b'"],
    ),
    "a score record too many": (
        lambda store: put(store, SCORES, (prefix_of(store, b"z", SCORES) + pack_score(9) + b"b", b"")),
        ["scores: b'z' of database 7 has a score record of b'b' that no member has"],
    ),
    "another score": (
        lambda store: put(store, ELEMENTS, (prefix_of(store, b"z", ELEMENTS) + b"b", pack_score(3))),
        ["scores: b'z' * has no score record for its member b'b'", "scores: b'z' * has a score record of b'b' that"],
    ),
    "a negative zero": (
        lambda store: put(store, ELEMENTS, (prefix_of(store, b"z", ELEMENTS) + b"a", b"\x7f" + b"\xff" * 7)),
        ["unreadable: * has the score b'*' in *", "scores: * has no score record", "scores: * that no"],
    ),
    "scores of a set": (
        lambda store: put(store, SCORES, (prefix_of(store, b"e", SCORES) + pack_score(3) + b"a", b"")),
        [f"scores: b'e' of database 7 has 1 record in {_CF[SCORES]}, where its form has none"],
    ),
    "no expiry entry": (
        lambda store: put(store, EXPIRY_CF, (expiry_of(store, b"t"), None)),
        ["expiry: * and is not in the index"],
    ),
    "a second expiry entry": (
        lambda store: put(store, EXPIRY_CF, (pack_u64(NOW_MS) + key_of(b"t"), b"")),
        ["expiry: the entry * has another time than its key, *"],
    ),
    "an expiry entry of nothing": (
        lambda store: put(store, EXPIRY_CF, (pack_u64(NOW_MS) + key_of(b"nothing"), b"")),
        ["expiry: the entry * names a key that is not there"],
    ),
    "an expiry entry with a value": (
        lambda store: put(store, EXPIRY_CF, (expiry_of(store, b"t"), b"\1")),
        ["expiry: the entry * has the value '01', which is not that of its key"],
    ),
    "an expiry entry that cannot be read": (
        lambda store: put(store, EXPIRY_CF, (expiry_of(store, b"t"), b"1")),
        ["expiry: expiry entry * cannot be read"],
    ),
    "an expiry entry that a sweep has passed": (
        lambda store: put(store, LOCAL_CF, (EXPIRY_CURSOR, min(family(store, EXPIRY_CF)) + b"\0")),
        ["expiry: the entry * is behind the cursor: no sweep will meet it"],
    ),
    "a count": (
        lambda store: put(store, SYSTEM_CF, (b"count/0/2", pack_u64(9))),
        ["counts: 4 keys of type hash in stored database 0, counted 9"],
    ),
    "a version above the newest": (
        lambda store: put(store, SYSTEM_CF, (b"last_version", pack_u64(metadata_of(store, b"whole").version))),
        ["versions: the grave *"] * _GRAVES + ["versions: * has version *, the newest taken *"] * _LATER,
    ),
    "two keys with one version": (
        one_version,
        ["versions: version * is there twice: of the key * and the key *"],
    ),
    "metadata that cannot be read": (
        lambda store: put(store, METADATA, (key_of(b"ranked"), b"\xff\0")),
        ["unreadable: b'ranked' of database 7: metadata value *of 2 bytes*"],
    ),
    "metadata without a version": (
        lambda store: describe(store, b"e", version=0),
        ["unreadable: b'e' of database 7 has elements and no version"],
    ),
    "a record that names no key": (
        lambda store: put(store, DATA, (LAYOUT.kind_prefix(DATA) + b"short", b"")),
        [f"unreadable: the record *73686f7274 in {_CF[DATA]} names no key"],
    ),
    "a metadata key that is none": (
        lambda store: put(store, METADATA, (LAYOUT.kind_prefix(METADATA) + b"short", b"")),
        ["place: metadata key *73686f7274 is *"],
    ),
    "a key in no database": (
        _wrong_database,
        [
            "place: b's' of database 16: there is no such database",
            "counts: 1 key of type string in stored database 16",
            *OF_STRING_METADATA,
        ],
    ),
    "a system value": (
        lambda store: put(store, SYSTEM_CF, (b"clock_ms", b"1")),
        ["unreadable: the record b'clock_ms' with b'1' is none", "unreadable: there is no number clock_ms"],
    ),
    "a system record that nobody knows": (
        lambda store: put(store, SYSTEM_CF, (b"count/0/9", pack_u64(1)), (b"colour", b"red")),
        ["unreadable: the record b'colour' with b'red' is none", "unreadable: the record b'count/0/9' with"],
    ),
    "a library of another name": (
        lambda store: put(store, SYSTEM_CF, (PREFIX + b"other", _library(b"lib"))),
        ["unreadable: the library b'library/other' with * is not the one of that name"],
    ),
    "a function of two libraries": (
        lambda store: put(store, SYSTEM_CF, *((PREFIX + name, _library(name)) for name in (b"lib", b"other"))),
        ["unreadable: the function b'f' has unknown flags, or is there twice"],
    ),
    "another state": (
        lambda store: put(store, SYSTEM_CF, (b"topic", b"bills")),
        ["unreadable: topic is b'bills', not topic"],
    ),
    "two databases in one place": (
        lambda store: put(store, SYSTEM_CF, (b"database/9", pack_u64(2))),
        ["unreadable: two databases are stored under one number"],
    ),
    "an idempotency key in another bucket": (
        lambda store: move(store, DEDUP_CF, _dedup(store, b"once"), U32.pack(3) + b"once"),
        ["dedup: the idempotency key b'once' is in bucket 3, by its time * ms that is *"],
    ),
    "an idempotency key of the future": (
        lambda store: put(
            store,
            DEDUP_CF,
            (U32.pack(2 * NOW_MS // DEDUP_WINDOW_MS) + b"x", pack_u64(2 * NOW_MS) + pack_u64(99_999) + b"\0"),
        ),
        ["dedup: the idempotency key b'x' is of * ms, the clock", "dedup: the idempotency key b'x' is of offset 99999"],
    ),
    "an outcome that cannot be read": (
        lambda store: put(store, DEDUP_CF, (_dedup(store, b"once")[0], _dedup(store, b"once")[1] + b"!")),
        ["unreadable: the idempotency key b'*once' cannot be read"],
    ),
    "a watch that cannot be read": (
        lambda store: put(store, SYSTEM_CF, (_watch(store)[0], b"\0" * 8 + b"\2")),
        ["unreadable: the watch *"],
    ),
    "a watch of the future": (
        lambda store: put(store, SYSTEM_CF, (_watch(store)[0], pack_u64(2 * NOW_MS) + b"\1")),
        ["watches: the session b'session of ann..' has a watch of * ms, the clock stands at *"],
    ),
    "a watch of no database": (
        lambda store: put(store, SYSTEM_CF, (b"watch/" + SESSIONS[1] + b"\x10key", pack_u64(NOW_MS) + b"\1")),
        ["watches: the session b'session of bob..' watches b'key' of database 16, which is none"],
    ),
    "a session that has lost and watches": (
        lambda store: put(store, SYSTEM_CF, (b"watch/session of carl.\0key", pack_u64(NOW_MS) + b"\1")),
        ["watches: the session b'session of carl.' has lost a watch, and watches b'key'"],
    ),
    "a mark on what is named": (
        lambda store: put(store, LOCAL_CF, (b"staged/" + pack_u64(metadata_of(store, b"e").version), key_of(b"e"))),
        ["versions: version * is there twice: of the key * and what is staged for *"],
    ),
    "a grave that a reclaimer has passed": (
        lambda store: put(store, LOCAL_CF, (GRAVEYARD_CURSOR, pack_u64(NOW_MS + 1))),
        ["graveyard: the grave of * ms, behind the cursor: no reclaimer will meet it"] * _GRAVES,
    ),
    "node-local records that nobody knows": (
        lambda store: put(
            store,
            LOCAL_CF,
            *((b"colour", b"red"), (GRAVEYARD_CURSOR, b""), (b"compact/colour/a", b"b"), (b"compact/a", b"")),
        ),
        ["unreadable: the node-local record *"] * 4,
    ),
    "a mark that names nothing": (
        lambda store: put(store, LOCAL_CF, (b"staged/", b"")),
        ["unreadable: the mark 7374616765642f names no version"],
    ),
}  # fmt: skip

_OF_SLOTS: Final[dict[str, tuple[Plant, list[str]]]] = {
    "a key in another slot": (_wrong_slot, ["place: b's' of database 7 is in slot *, not *", *OF_STRING_METADATA]),
}
"""Of layouts whose keys have their slot."""

PLANTS: Final = {
    **_OF_EVERY_LAYOUT,
    **(_OF_SLOTS if LAYOUT.slot_prefix(0, 0) is not None else {}),
    **{name: plant for form in LAYOUT.forms for name, plant in OF_FORMS[form].items()},
}
"""What is done to a good state, and what the audit says: texts in which `*` stands for anything, at the end too."""
