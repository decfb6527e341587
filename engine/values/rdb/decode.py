"""Decodes payloads from Valkey 9.1, Redis 7.4 and older servers.

What follows the value is ignored, as in Redis. `engine.values.rdb.parts` has the encodings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from engine.model import HASH, LIST, STRING
from engine.values.rdb.content import Content, joined
from engine.values.rdb.crc64 import crc64
from engine.values.rdb.errors import FormatError, VersionError
from engine.values.rdb.parts import is_known, parts
from engine.values.rdb.reader import PayloadReader, check_count

FOOTER_BYTES: Final = 10
_CHECKSUM_BYTES: Final = 8


def decode(payload: bytes) -> Content:
    """The content of a payload.

    Raises:
        VersionError, FormatError, UnsupportedError, TooLargeError: see there. Nothing else, whatever the bytes are.
    """
    version, reader = opened(payload)
    return _whole(parts(reader.byte(), version, reader))


def opened(payload: bytes) -> tuple[int, PayloadReader]:
    """The RDB version of a payload, and what stands before its footer.

    Raises:
        VersionError: the footer is none.
    """
    version = int.from_bytes(payload[-FOOTER_BYTES:-_CHECKSUM_BYTES], "little")
    if len(payload) < FOOTER_BYTES or not is_known(version):
        raise VersionError("version")
    if crc64(payload[:-_CHECKSUM_BYTES]) != int.from_bytes(payload[-_CHECKSUM_BYTES:], "little"):
        raise VersionError("checksum")
    return version, PayloadReader(payload[:-FOOTER_BYTES])


def _whole(parts: Iterator[Content]) -> Content:
    """The content of which these are the parts, no member or field of it twice."""
    first, second = next(parts, None), next(parts, None)
    if first is None:
        raise FormatError("none")
    content = first
    if second is not None:
        content = joined(_bounded(chain((first, second), parts))) or first
    if content.type not in (LIST, STRING):
        different = content.texts[::2] if content.type == HASH else content.texts
        if len(set(different)) != len(different):
            raise FormatError("one twice")
    return content


def _bounded(parts: Iterable[Content]) -> Iterator[Content]:
    count = 0
    for part in parts:
        count += part.strings
        check_count(count)
        yield part
