"""Splits the compaction of a range into pieces, so that none takes long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

PIECE_BYTES: Final = 64 * 1024 * 1024
"""What is compacted at a time: about a second's work, which nobody interrupts."""


def pieces(files: list[dict[str, Any]], start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """The pieces in which a range is compacted: first key, last key, bytes of the files that begin there.

    `files` are those of all column families, as rocksdict does not say which is of which: so there are more pieces, and
    smaller ones, than would do.
    """
    within = [file for file in files if file["start_key"] < end and file["end_key"] >= start]
    first, piece_bytes = start, 0
    for file_start, size in sorted((file["start_key"], file["size"]) for file in within):
        if piece_bytes and piece_bytes + size > PIECE_BYTES and file_start > first:
            yield first, file_start, piece_bytes
            first, piece_bytes = file_start, 0
        piece_bytes += size
    yield first, end, piece_bytes
