"""Graveyard entries: collections that died with elements in them. Cleaning needs no scan for orphans.

CF graveyard   [clock_ms at death:8][version:8]  ->  [type:1][size:8][metadata key]
CF local       cursor/graveyard                  ->  [ms:8]  all graves of collections that died before this are gone
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.limits import FRAGMENT_BYTES
from engine.model import STRING, UNCOUNTED_FROM

CURSOR: Final = b"cursor/graveyard"
"""The record that says how far the walk has come that gives back their room."""

_GRAVE: Final = Struct(">QQ")
_CONTENT: Final = Struct(">BQ")


class Grave(NamedTuple):
    """One dead collection. `died_ms` is log time."""

    died_ms: int
    version: int
    type: int
    size: int
    metadata_key: bytes

    @property
    def elements(self) -> int:
        """How many elements it had, or as many fragments as a string of its length may have; 0 when nobody knows."""
        if self.size >= UNCOUNTED_FROM:
            return 0
        return -(-self.size // FRAGMENT_BYTES) if self.type == STRING else self.size


def pack_grave(grave: Grave) -> tuple[bytes, bytes]:
    """The record of a collection that died."""
    return _GRAVE.pack(grave.died_ms, grave.version), _CONTENT.pack(grave.type, grave.size) + grave.metadata_key


def parse_grave(record: bytes, content: bytes) -> Grave:
    """What `pack_grave` wrote."""
    try:
        died_ms, version = _GRAVE.unpack(record)
        type_code, size = _CONTENT.unpack_from(content)
    except StructError as error:
        message = f"graveyard entry {record.hex()} cannot be read"
        raise CorruptionError(message) from error
    return Grave(died_ms, version, type_code, size, content[_CONTENT.size :])
