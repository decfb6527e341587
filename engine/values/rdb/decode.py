"""Decodes payloads from Valkey 9.1, Redis 7.4 and older servers.

What follows the value is ignored, as in Redis. `engine.values.rdb.parts` has the encodings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.model import HASH, LIST, STRING
from engine.values.rdb.content import Content
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
    version = int.from_bytes(payload[-FOOTER_BYTES:-_CHECKSUM_BYTES], "little")
    if len(payload) < FOOTER_BYTES or not is_known(version):
        raise VersionError("version")
    if crc64(payload[:-_CHECKSUM_BYTES]) != int.from_bytes(payload[-_CHECKSUM_BYTES:], "little"):
        raise VersionError("checksum")
    reader = PayloadReader(payload[:-FOOTER_BYTES])
    return _whole(parts(reader.byte(), version, reader))


def _whole(pieces: Iterable[Content]) -> Content:
    """The content of which these are the parts, no member or field of it twice."""
    kind = 0
    texts: list[bytes] = []
    scores: list[float] = []
    expires_ms: list[int] = []
    for part in pieces:
        check_count(len(texts) + len(part.texts))
        kind = part.type
        texts += part.texts
        scores += part.scores
        expires_ms += part.expires_ms or [0] * (len(part.texts) // 2)
    if not texts:
        raise FormatError("none")
    if kind not in (LIST, STRING):
        different = texts[::2] if kind == HASH else texts
        if len(dict.fromkeys(different)) != len(different):
            raise FormatError("one twice")
    return Content(kind, texts, scores or (), expires_ms if kind == HASH and any(expires_ms) else ())
