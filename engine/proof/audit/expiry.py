"""Audits the expiry index against the times to live that keys have."""

from __future__ import annotations

from engine.errors import CorruptionError
from engine.layouts.records import metadata_getter
from engine.proof.audit.readable import parsed, readable_keys
from engine.proof.audit.violation import State, Violation, Violations, shown
from engine.store.store import EXPIRY_CF, LOCAL_CF, Get
from engine.tables.expiry_index import EXPIRY_CURSOR, entry_at, parse_entry, place_of


def check_expiry(state: State) -> Violations:
    """Every key that time will change has an entry, and every entry is of such a key. A look-up for each of both.

    What a sweep has not walked past is behind none of its cursors.
    """
    get_entry, get_key = state.store.getter(EXPIRY_CF), metadata_getter(state.store, state.layout)
    for key, metadata in readable_keys(state):
        place = place_of(metadata.expire_ms, metadata.times)
        if place and get_entry(entry_at(place, key)) is None:
            what = "dies" if place > 0 else "loses a field"
            text = f"{shown(key)} {what} at {abs(place)} ms and is not in the index"
            yield Violation("expiry", state.metadata_cf, key, text)
    cursor = state.store.getter(LOCAL_CF)(EXPIRY_CURSOR) or b""
    for entry, content in state.store.scan(EXPIRY_CF, b"", None):
        text = _wrong_entry(state, entry, content, get_key) or (
            f"the entry {entry.hex()} is behind the cursor: no sweep will meet it" if entry < cursor else ""
        )
        if text:
            yield Violation("expiry", EXPIRY_CF, entry, text)


def _wrong_entry(state: State, entry: bytes, content: bytes, get_key: Get) -> str:
    """What is wrong with an entry of the index, if anything."""
    try:
        place, key = parse_entry(entry, content)
    except CorruptionError as error:
        return str(error)
    stored = get_key(key)
    if stored is None:
        return f"the entry {entry.hex()} names a key that is not there"
    named = parsed(state, stored)
    own = place if named is None else place_of(named.expire_ms, named.times)
    if own == place:
        return ""
    if abs(own) == abs(place):
        return f"the entry {entry.hex()} has the value {content.hex()!r}, which is not that of its key"
    return f"the entry {entry.hex()} has another time than its key, {abs(own)} ms"
