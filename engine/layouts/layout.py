"""The Layout protocol: what one partition's keys and metadata look like on disk."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from engine.model import Metadata


class Layout(Protocol):
    """The form of one partition's keys and metadata. An instance is bound to one partition number."""

    name: ClassVar[str]
    metadata_cf: ClassVar[str]
    data_cf: ClassVar[str]
    score_cf: ClassVar[str]
    rank_cf: ClassVar[str]
    time_cf: ClassVar[str]
    column_families: ClassVar[tuple[str, ...]]

    def __init__(self, partition: int) -> None:
        """Bind the layout to `partition`."""

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """The key of the metadata record of `name`."""
        ...

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key; CorruptionError when it is none."""
        ...

    def database_range(self, db: int) -> tuple[bytes, bytes]:
        """First key and exclusive end of all keys of `db`, in every column family of the layout."""
        ...

    def subkey_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """What every subkey of that version starts with, in the column families of data, ranks and times."""
        ...

    def score_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """What every score record of that version starts with, in the score column family."""
        ...

    def owner_bytes(self, record: bytes) -> int:
        """How many bytes at the head of a record of a subkey, in any column family, say whose it is.

        Raises:
            CorruptionError: it is too short to say so.
        """
        ...

    def pack_metadata(self, metadata: Any) -> bytes:
        """The metadata value of anything with the attributes of `Metadata`."""
        ...

    def parse_metadata(self, value: bytes) -> Metadata:
        """What `pack_metadata` wrote; CorruptionError when it is none."""
        ...
