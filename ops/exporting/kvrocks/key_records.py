"""Writes the records that Kvrocks has for a key, in one pass through its content: the metadata comes last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from engine.errors import CommandError
from engine.layouts.kvrocks.fragments import split_registers
from engine.layouts.kvrocks.keys import Owner, metadata_key, subkey_prefix
from engine.layouts.kvrocks.metadata import (
    HYPERLOGLOG,
    HYPERLOGLOG_TAIL,
    FieldTimes,
    KvrocksMetadata,
    StreamTail,
    pack,
    pack_ends,
    pack_field,
    pack_field_times,
    pack_stream,
)
from engine.model import HASH, LIST, LIST_START, NO_ID, SET, STREAM, STRING, ZSET
from engine.proof.walk import LiveKey
from engine.values.encoding import pack_u64, parse_u64
from engine.values.hyperloglog import values as hyperloglog
from engine.values.stream_records import GROUPS
from ops.importing.kvrocks.directory import DEFAULT, METADATA, ZSET_SCORE
from ops.importing.kvrocks.directory import STREAM as STREAM_CF

Put: TypeAlias = Callable[[str, bytes, bytes], None]
"""Takes column family, key and value of a record."""

SubkeyPut: TypeAlias = Callable[[bytes, bytes], None]
"""Takes subkey and value."""


def put_key(put: Put, owner: Owner, version: int, key: LiveKey) -> None:
    """Write all records of a key that is not empty.

    A hash with `field_times` gets the form that Kvrocks has for them behind 2.10.
    """
    prefix = subkey_prefix(owner, version)

    def put_subkey(subkey: bytes, value: bytes) -> None:
        put(DEFAULT, prefix + subkey, value)

    def put_record(subkey: bytes, value: bytes) -> None:
        put(STREAM_CF, prefix + subkey, value)

    def put_score(subkey: bytes) -> None:
        put(ZSET_SCORE, prefix + subkey, b"")

    if key.type == STRING:
        metadata = _string(put_subkey, key, version)
    elif key.type == STREAM:
        metadata = _stream(put_record, key, version)
    elif key.type == ZSET:
        metadata = _sorted_set(put_subkey, put_score, key, version)
    else:
        metadata = _COLLECTIONS[key.type](put_subkey, key, version)
    put(METADATA, metadata_key(owner), pack(metadata))


def _string(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    value = next(key.content)
    registers = _registers(value)
    if registers is None:
        return KvrocksMetadata(STRING, key.expire_ms, tail=value)
    for subkey, fragment in split_registers(registers):
        put(subkey, fragment)
    return KvrocksMetadata(HYPERLOGLOG, key.expire_ms, version, tail=HYPERLOGLOG_TAIL)


def _registers(value: bytes) -> bytes | None:
    """The registers of a HyperLogLog; None of another string."""
    try:
        hyperloglog.check(value[: hyperloglog.HEADER_BYTES], len(value))
        return hyperloglog.packed_registers(value)
    except CommandError:  # it looks like one to no command
        return None


def _list(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    tail = LIST_START
    for element in key.content:
        put(pack_u64(tail), element)
        tail += 1
    return KvrocksMetadata(LIST, key.expire_ms, version, tail - LIST_START, pack_ends(LIST_START, tail))


def _set(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    size = 0
    for member in key.content:
        put(member, b"")
        size += 1
    return KvrocksMetadata(SET, key.expire_ms, version, size)


def _sorted_set(put: SubkeyPut, put_score: Callable[[bytes], None], key: LiveKey, version: int) -> KvrocksMetadata:
    size = 0
    for member, score in _pairs(key.content):
        put(member, score)
        put_score(score + member)
        size += 1
    return KvrocksMetadata(ZSET, key.expire_ms, version, size)


def _stream(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    """The records of a stream are those of Kvrocks in every layout."""
    last_id, max_deleted_id, entries_added = next(key.content), next(key.content), parse_u64(next(key.content))
    first_id = end_id = NO_ID
    size = groups = 0
    for subkey, value in _pairs(key.content):
        put(subkey, value)
        if len(subkey) == len(NO_ID):
            first_id = first_id if size else subkey
            end_id = subkey
            size += 1
        else:
            groups += subkey.startswith(GROUPS)
    tail = StreamTail(last_id, first_id, max_deleted_id, first_id, end_id, entries_added, groups)
    return KvrocksMetadata(STREAM, key.expire_ms, version, size, pack_stream(tail))


def _hash(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    times = iter(key.field_times)
    timed = next(times, None)
    if timed is None:
        return _plain_hash(put, key, version)
    size = persist = upper = 0
    lower: int | None = None
    for field, value in _pairs(key.content):
        expire_ms = 0
        if timed is not None and timed[0] == field:
            expire_ms = timed[1]
            timed = next(times, None)
            lower, upper = min(lower or expire_ms, expire_ms), max(upper, expire_ms)
        put(field, pack_field(expire_ms, value))
        size += 1
        persist += not expire_ms
    return KvrocksMetadata(HASH, key.expire_ms, version, size, pack_field_times(FieldTimes(persist, lower or 0, upper)))


def _plain_hash(put: SubkeyPut, key: LiveKey, version: int) -> KvrocksMetadata:
    size = 0
    for field, value in _pairs(key.content):
        put(field, value)
        size += 1
    return KvrocksMetadata(HASH, key.expire_ms, version, size)


_COLLECTIONS: Final[dict[int, Callable[[SubkeyPut, LiveKey, int], KvrocksMetadata]]] = {
    LIST: _list,
    SET: _set,
    HASH: _hash,
}


def _pairs(content: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    pieces = iter(content)
    return zip(pieces, pieces, strict=True)
