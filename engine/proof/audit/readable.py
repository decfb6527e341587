"""Reads metadata for several parts of the audit, and the marks of versions not named yet."""

from __future__ import annotations

from collections.abc import Iterator

from engine.batch.staging import MARK
from engine.errors import CorruptionError
from engine.layouts.records import metadata_records
from engine.model import Metadata
from engine.proof.audit.violation import State
from engine.store.store import LOCAL_CF
from engine.values.encoding import prefix_end


def parsed(state: State, value: bytes) -> Metadata | None:
    """The metadata that a record holds; None where it cannot be read."""
    try:
        return state.layout.parse_metadata(value)
    except CorruptionError:
        return None


def readable_keys(state: State) -> Iterator[tuple[bytes, Metadata]]:
    """All keys whose metadata can be read."""
    for key, value in metadata_records(state.store, state.layout):
        metadata = parsed(state, value)
        if metadata is not None:
            yield key, metadata


def marks(state: State) -> list[tuple[bytes, bytes]]:
    """The marks of versions that are not named yet, by metadata key and version."""
    found = state.store.scan(LOCAL_CF, MARK, prefix_end(MARK))
    return sorted(found, key=lambda record: (record[1], record[0]))
