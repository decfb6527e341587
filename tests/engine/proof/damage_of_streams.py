"""Damage to streams, and the violations that an audit finds of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.layouts.layout import Form, Kind
from engine.model import StreamMetadata
from engine.store.memory import MemoryStore
from engine.types.stream.streams import make_id
from engine.values.stream_records import (
    BLOCKS,
    ENTRIES_END,
    GroupRecord,
    by_consumer_subkey,
    consumer_subkey,
    group_subkey,
    pack_count,
    pack_group,
    pending_subkey,
)
from tests.engine.proof.lived import LAYOUT, STREAM, STREAM_INDEX, below, describe, metadata_of, prefix_of
from tests.engine.stored import put

Plant = Callable[[MemoryStore], None]

_ID: Final = make_id(5, 1)
"""Of an entry that is pending."""

_COUNTED: Final = ["stream: *"] if Form.STREAM_COUNTS in LAYOUT.forms else []
"""What is said of another number of entries where the layout counts them."""


def _put(store: MemoryStore, subkey: bytes, value: bytes | None, kind: Kind = STREAM) -> None:
    put(store, kind, (prefix_of(store, b"stream", kind) + subkey, value))


def _say(store: MemoryStore, **facts: object) -> None:
    """Let the metadata of the stream say something else of it."""
    stream = metadata_of(store, b"stream").stream or StreamMetadata()
    describe(store, b"stream", stream=stream._replace(**facts))  # type: ignore[arg-type]


def _without_consumer(store: MemoryStore) -> None:
    """Take a consumer that has a pending entry."""
    _put(store, consumer_subkey(b"crew", b"bob"), None)


OF_STREAMS: Final[dict[str, tuple[Plant, list[str]]]] = {
    "an entry that cannot be read": (
        lambda store: _put(store, make_id(2000, 1), b"\x09f"),
        ["unreadable: b'stream' of database 7 has a stream entry with a value of 2 bytes", "size: *", *_COUNTED],
    ),
    "a subkey that is none of a stream": (
        lambda store: _put(store, ENTRIES_END + b"\x09", b""),
        ["unreadable: b'stream' of database 7 has the subkey *"],
    ),
    "an entry behind the last one": (
        lambda store: _put(store, make_id(9000, 1), b"\x01f\x01v"),
        [
            "size: b'stream' of database 7 has 2997 entries, by its metadata 2996",
            *("stream: * has entries from *, by its metadata *", "stream: * has an entry above its last id *"),
            *_COUNTED,
        ],
    ),
    "another number of groups": (
        lambda store: _say(store, groups=3),
        ["stream: b'stream' of database 7 has 2 groups, by its metadata 3"],
    ),
    "another number of pending entries": (
        lambda store: _put(store, group_subkey(b"idle"), pack_group(GroupRecord(0, 7, make_id(5, 0), -1))),
        ["stream: * says of the group b'idle' that it has 0 more consumers and 7 more pending entries than there are"],
    ),
    "a consumer is gone": (
        _without_consumer,
        ["stream: * has a pending entry of the consumer b'bob', which is not there", "stream: * 1 more consumers *"],
    ),
    "a group is gone": (
        lambda store: _put(store, group_subkey(b"crew"), None),
        [
            *["stream: * has a consumer of the group b'crew', which is not there"] * 2,
            *["stream: * has a pending entry of the group b'crew', which is not there"] * 4,
            "stream: b'stream' of database 7 has 1 group, by its metadata 2",
        ],
    ),
    "a pending entry is gone": (
        lambda store: _put(store, pending_subkey(b"crew", _ID), None),
        [
            "stream: * says of the group b'crew' *",
            "stream: * says of the consumer b'ann' that it has 1 more *",
            "stream: * has an index that has not the pending entries of its groups",
        ],
    ),
    "a pending entry is not in the index": (
        lambda store: _put(store, by_consumer_subkey(b"crew", b"ann", _ID), None, STREAM_INDEX),
        ["stream: b'stream' of database 7 has an index that has not the pending entries of its groups"],
    ),
    "a pending entry with a value in the index": (
        lambda store: _put(store, by_consumer_subkey(b"crew", b"ann", _ID), b"x", STREAM_INDEX),
        ["unreadable: b'stream' of database 7 has b'x' with the pending entry *"],
    ),
}
"""What is done to a good state, and what the audit says."""

OF_STREAM_COUNTS: Final[dict[str, tuple[Plant, list[str]]]] = {
    "a block of a stream": (
        lambda store: put(store, STREAM_INDEX, (below(store, STREAM_INDEX, b"stream", BLOCKS)[0][0], pack_count(9))),
        ["stream: b'stream' of database 7 counts 9 entries up to *"],
    ),
    "the entries behind the last block": (
        lambda store: _say(store, tail_count=9),
        ["stream: b'stream' of database 7 has * entries after its last block, by its metadata 9"],
    ),
}
"""The same, where the layout counts entries."""
