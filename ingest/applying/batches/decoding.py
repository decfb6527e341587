"""Decodes the records of a batch: by the hot path in C, where it runs."""

from __future__ import annotations

from collections.abc import Sequence

from engine import native
from slotlog.events import NAMES_BY_HEAD, WALKED_ABOVE_BYTES, Event, decode, decode_all
from slotlog.log import LogRecord


def decode_batch(batch: Sequence[LogRecord]) -> list[Event]:
    """The events of these records, as `decode` gives each."""
    hot = native.chosen()
    if hot is None:
        return decode_all(batch)
    events: list[Event] = hot.decode_run(batch, NAMES_BY_HEAD, WALKED_ABOVE_BYTES, b"EXEC", decode)
    return events
