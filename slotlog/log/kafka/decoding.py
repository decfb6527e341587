"""Unpacks compressed record batches up to a bound, as a few KB may unpack to all memory there is.

aiokafka's own decoders have no bound, and cramjam's streams take whole frames only:
room is offered until it is enough.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final

from aiokafka import codec

from slotlog.shared.errors import PicklableError
from slotlog.shared.limits import RECORD_BYTES_MAX

_cramjam: Any = codec.cramjam  # comes with aiokafka's extras; None without it, as aiokafka says then

UNPACKED_BYTES_MAX: Final = 16 * RECORD_BYTES_MAX
"""Of one batch. A broker takes 9 MiB of a compressed one; producers end theirs at some MB before they compress."""

UNPACKED_RECORDS_MAX: Final = 1 << 21
"""Of one batch: an object each. A batch of 9 MiB that is not compressed has at most 1.4 million."""

_XERIAL_HEADER_BYTES: Final = 16
_FIRST_ROOM: Final = 16
_MORE_ROOM: Final = 4
_LEAST_ROOM: Final = 1 << 16
_NO_ROOM: Final = "failed to write whole buffer"
"""What cramjam says when there is more than it was given room for."""


class TooLargeError(PicklableError):
    """A compressed batch unpacks to more than it may.

    Args:
        first, last: the offsets of its records.
    """

    def __init__(self, first: int, last: int) -> None:
        super().__init__(
            f"the offsets {first} to {last} are one compressed batch, which unpacks to more than {UNPACKED_BYTES_MAX} "
            f"bytes or {UNPACKED_RECORDS_MAX} records; `slotlog skip PARTITION {first}-{last}` goes past it"
        )


class _NoRoomError(Exception):
    """It unpacks to more than `UNPACKED_BYTES_MAX`."""


def unpacked(codec_number: int, data: bytes, *, first: int, last: int, records: int) -> bytes:
    """The records of a batch.

    Args:
        codec_number: as in the batch's attributes.
        data: what stands behind its header.
        first: the offset of its first record.
        last: the offset of its last record.
        records: how many its header says that there are.

    Raises:
        TooLargeError: they are too many, or have too many bytes.
        Exception: whatever a decoder raises.
    """
    if records > UNPACKED_RECORDS_MAX:
        raise TooLargeError(first, last)
    try:
        return _DECODERS[codec_number](data)
    except _NoRoomError:
        raise TooLargeError(first, last) from None


def _gunzip(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
        found = packed.read(UNPACKED_BYTES_MAX + 1)
    if len(found) > UNPACKED_BYTES_MAX:
        raise _NoRoomError
    return found


def _unsnappy(data: bytes) -> bytes:
    """Each block begins with the number of its bytes, which it is held to; a stream of Xerial's has many of them."""
    length = _cramjam.snappy.decompress_raw_len
    if not codec._detect_xerial_stream(data):  # noqa: SLF001 - aiokafka tells it to nobody else
        size = length(data)
    else:
        size, at = 0, _XERIAL_HEADER_BYTES
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], signed=True)
            if end <= at:
                raise ValueError("a block of less than no bytes")
            size += length(data[at + 4 : end])
            at = end
    if size > UNPACKED_BYTES_MAX:
        raise _NoRoomError
    found: bytes = codec.snappy_decode(data)
    return found


def _within(decompress_into: Callable[[bytes, bytearray], int], data: bytes) -> bytes:
    size = max(_LEAST_ROOM, _FIRST_ROOM * len(data))
    while True:
        room = bytearray(min(size, UNPACKED_BYTES_MAX))
        try:
            return bytes(memoryview(room)[: decompress_into(data, room)])
        except _cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
        if len(room) == UNPACKED_BYTES_MAX:
            raise _NoRoomError
        size *= _MORE_ROOM


_DECODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        1: _gunzip,
        2: _unsnappy,
        3: lambda data: _within(_cramjam.lz4.decompress_into, data),
        4: lambda data: _within(_cramjam.zstd.decompress_into, data),
    }
)
