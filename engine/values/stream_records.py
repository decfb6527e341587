"""Packs and parses the records of a stream, in the form that Kvrocks gave them. Every integer is big-endian.

    entry       [id:16]                                          -> of each field and value [length:varint][bytes]
    group       ff*8 01 [length:8][group]                        -> [consumers:8][pending:8][last id:16]
                                                                    [entries read:8][lag:8]
    consumer    ff*8 02 [length:8][group][length:8][consumer]    -> [pending:8][seen ms:8][active ms:8]
    pending     ff*8 03 [length:8][group][id:16]                 -> [delivered ms:8][deliveries:8][length:8][consumer]

An id is `[ms:8][seq:8]`. A varint has 7 bits in each byte, the lowest first, and bit 7 set in all but the last.
`entries read` is -1 where it is unknown, `active ms` where the consumer has never got an entry; both are signed. The
lag is 0: it is worked out when somebody asks. An entry of the highest millisecond stands among the other records: its
subkey has 16 bytes, each of theirs at least 17. Source: redis_stream.cc and redis_stream_base.cc of Kvrocks 2.10.1.

Beside them, of our own, in records of another kind:

    00 [id:16]                                                   -> [count:8]   a counted block of entries: its last id
    01 [length:8][group][length:8][consumer][id:16]              -> empty       a pending entry by its consumer
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.values.encoding import U64, pack_u64, parse_u64

ID_BYTES: Final = 16

ENTRIES_END: Final = b"\xff" * 8
"""What the subkeys of all records but entries begin with, and the ids of the highest millisecond."""

GROUPS: Final = ENTRIES_END + b"\x01"
_CONSUMERS: Final = ENTRIES_END + b"\x02"
_PENDING: Final = ENTRIES_END + b"\x03"
GROUPS_END: Final = _CONSUMERS

BLOCKS: Final = b"\x00"
BLOCKS_END: Final = b"\x01"
_BY_CONSUMER: Final = b"\x01"

_GROUP: Final = Struct(">QQ16sqQ")
_CONSUMER: Final = Struct(">QQq")
_DELIVERY: Final = Struct(">QQQ")

_SHORT: Final = 0x80
_MASK: Final = 0x7F


class GroupRecord(NamedTuple):
    """The value of a group. `entries_read` is -1 where it is unknown."""

    consumers: int
    pending: int
    last_id: bytes
    entries_read: int


class ConsumerRecord(NamedTuple):
    """The value of a consumer. `active_ms`, when it last got something, is -1 where it never did."""

    pending: int
    seen_ms: int
    active_ms: int


class PendingRecord(NamedTuple):
    """The value of a pending entry."""

    delivered_ms: int
    deliveries: int
    consumer: bytes


# ---------------------------------------------------------------------- entries


def pack_entry(texts: Sequence[bytes]) -> bytes:
    """The value of an entry whose fields and values alternate in `texts`. Hot path."""
    pieces = []
    for text in texts:
        length = len(text)
        if length < _SHORT:
            pieces.append(_LENGTHS[length])
        else:
            pieces.append(_varint(length))
        pieces.append(text)
    return b"".join(pieces)


def parse_entry(value: bytes) -> list[bytes]:
    """What `pack_entry` wrote.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    texts = []
    at, end = 0, len(value)
    while at < end:
        length, shift, byte = 0, 0, _SHORT
        while byte & _SHORT and at < end:
            byte = value[at]
            length |= (byte & _MASK) << shift
            shift += 7
            at += 1
        if byte & _SHORT or at + length > end:
            raise CorruptionError(f"a stream entry with a value of {end} bytes cannot be read")
        texts.append(value[at : at + length])
        at += length
    if not texts or len(texts) % 2:
        raise CorruptionError(f"a stream entry has {len(texts)} fields and values")
    return texts


def _varint(number: int) -> bytes:
    packed = bytearray()
    while number >= _SHORT:
        packed.append(number & _MASK | _SHORT)
        number >>= 7
    packed.append(number)
    return bytes(packed)


_LENGTHS: Final = [bytes((length,)) for length in range(_SHORT)]


# ---------------------------------------------------------------------- groups


def group_subkey(group: bytes) -> bytes:
    """The subkey of a group."""
    return GROUPS + pack_u64(len(group)) + group


def parse_group_subkey(subkey: bytes) -> bytes:
    """The name of the group."""
    return subkey[len(GROUPS) + U64.size :]


def pack_group(group: GroupRecord) -> bytes:
    """The value of a group."""
    return _GROUP.pack(*group, 0)


def parse_group(value: bytes) -> GroupRecord:
    """What `pack_group` wrote, or Kvrocks."""
    try:
        return GroupRecord(*_GROUP.unpack(value)[:4])
    except StructError as error:
        raise CorruptionError(f"a stream group with a value of {len(value)} bytes cannot be read") from error


# ---------------------------------------------------------------------- consumers


def consumers_prefix(group: bytes) -> bytes:
    """What the subkeys of a group's consumers begin with; the length and the name follow."""
    return _CONSUMERS + pack_u64(len(group)) + group


def consumer_subkey(group: bytes, consumer: bytes) -> bytes:
    """The subkey of a consumer."""
    return consumers_prefix(group) + pack_u64(len(consumer)) + consumer


def parse_consumer_subkey(group: bytes, subkey: bytes) -> bytes:
    """The name of a consumer of this group."""
    return subkey[len(_CONSUMERS) + 2 * U64.size + len(group) :]


def pack_consumer(consumer: ConsumerRecord) -> bytes:
    """The value of a consumer."""
    return _CONSUMER.pack(*consumer)


def parse_consumer(value: bytes) -> ConsumerRecord:
    """What `pack_consumer` wrote, or Kvrocks."""
    try:
        return ConsumerRecord(*_CONSUMER.unpack(value))
    except StructError as error:
        raise CorruptionError(f"a stream consumer with a value of {len(value)} bytes cannot be read") from error


# ---------------------------------------------------------------------- pending entries


def pending_prefix(group: bytes) -> bytes:
    """What the subkeys of a group's pending entries begin with; the id follows."""
    return _PENDING + pack_u64(len(group)) + group


def pending_subkey(group: bytes, entry_id: bytes) -> bytes:
    """The subkey of a pending entry."""
    return pending_prefix(group) + entry_id


def pack_pending(pending: PendingRecord) -> bytes:
    """The value of a pending entry."""
    delivered_ms, deliveries, consumer = pending
    return _DELIVERY.pack(delivered_ms, deliveries, len(consumer)) + consumer


def parse_pending(value: bytes) -> PendingRecord:
    """What `pack_pending` wrote, or Kvrocks."""
    try:
        delivered_ms, deliveries, length = _DELIVERY.unpack_from(value)
    except StructError as error:
        raise CorruptionError(f"a pending entry with a value of {len(value)} bytes cannot be read") from error
    consumer = value[_DELIVERY.size :]
    if len(consumer) != length:
        raise CorruptionError(f"a pending entry with a value of {len(value)} bytes cannot be read")
    return PendingRecord(delivered_ms, deliveries, consumer)


# ---------------------------------------------------------------------- records of our own


def block_subkey(last_id: bytes) -> bytes:
    """The subkey of a counted block, which ends at this id."""
    return BLOCKS + last_id


def pack_count(count: int) -> bytes:
    """The value of a counted block."""
    return pack_u64(count)


def parse_block(subkey: bytes, value: bytes) -> tuple[bytes, int]:
    """The last id of a counted block, and the number of its entries."""
    return subkey[len(BLOCKS) :], parse_u64(value)


def group_prefix(group: bytes) -> bytes:
    """What the subkeys of a group's pending entries begin with in the index."""
    return _BY_CONSUMER + pack_u64(len(group)) + group


def by_consumer_prefix(group: bytes, consumer: bytes) -> bytes:
    """What the subkeys of a consumer's pending entries begin with in the index; the id follows."""
    return group_prefix(group) + pack_u64(len(consumer)) + consumer


def by_consumer_subkey(group: bytes, consumer: bytes, entry_id: bytes) -> bytes:
    """The subkey of a pending entry in the index."""
    return by_consumer_prefix(group, consumer) + entry_id
