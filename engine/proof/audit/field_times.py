"""Audits the times to live of a hash's fields against the fields and the metadata."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from engine.batch.keys.key import BY_FIELD, BY_TIME
from engine.layouts.layout import Kind
from engine.model import Times
from engine.proof.audit.violation import Live, State, Tally, Violation, Violations, shown
from engine.proof.audit.walk import RecordCursor
from engine.values.encoding import U64, parse_u64

_END: Final = None, b""
_NEVER: Final = bytes(U64.size)


def check_times(
    state: State, cursor: RecordCursor, fields: Iterator[tuple[bytes, bytes]], live: Live
) -> Generator[Violation, None, int]:
    """Take the records of times of a hash in its timed form, and its fields. Returns how many fields it has."""
    by_field, by_time = Tally(), Tally()
    prefix = live.prefixes[Kind.TIMES]
    count, soonest_ms, latest_ms = 0, 0, 0
    field, stored = next(fields, _END)
    stamp = _NEVER
    for record, packed in cursor.under(prefix + BY_FIELD):
        while field is not None and field < record:
            count += 1
            yield from _check_stamp(state, live, field, stored, stamp)
            field, stored = next(fields, _END)
            stamp = _NEVER
        stamp = packed
        if field != record:
            stamp = _NEVER
            text = f"has a time to live for the field {shown(record)}, which is not there"
            yield _wrong(state, cursor, live, BY_FIELD + record, text)
        if len(packed) != U64.size or not any(packed):
            text = f"has {shown(packed)} as the time to live of the field {shown(record)}"
            yield _wrong(state, cursor, live, BY_FIELD + record, text, kind="unreadable")
            continue
        by_field.add(packed + record)
        expire_ms = parse_u64(packed)
        soonest_ms = min(soonest_ms or expire_ms, expire_ms)
        latest_ms = max(latest_ms, expire_ms)
    while field is not None:
        count += 1
        yield from _check_stamp(state, live, field, stored, stamp)
        field, stored = next(fields, _END)
        stamp = _NEVER
    stamp = _NEVER
    for record, value in cursor.under(prefix + BY_TIME):
        by_time.add(record)
        if value or len(record) < U64.size:
            yield _wrong(state, cursor, live, BY_TIME + record, "has a damaged record by time", kind="unreadable")
    if not by_field.agrees(by_time):
        yield from _differences(state, cursor, live)
    times = Times(by_field.count, 0, soonest_ms, latest_ms)
    yield from _check_facts(state, live, times, all_timed=by_field.count == count)
    return count


def _check_stamp(state: State, live: Live, field: bytes, stored: bytes, stamp: bytes) -> Violations:
    """Compare what is stored under a field with its time to live, where that is to stand in front of the value."""
    if state.layout.stamps_fields and stored[: U64.size] != stamp:
        text = f"has {shown(stored[: U64.size])} in front of the field {shown(field)}, whose time is {shown(stamp)}"
        record = live.prefixes[Kind.DATA] + field
        yield Violation("times", state.layout.families[Kind.DATA], record, f"{state.name_of(live.metadata_key)} {text}")


def _check_facts(state: State, live: Live, found_times: Times, *, all_timed: bool) -> Violations:
    """Compare the metadata with what follows from the records; `all_timed`: each field has a time to live."""
    metadata = live.metadata
    assert metadata.times is not None
    own_ms = metadata.times.own_expire_ms
    timed, _, soonest_ms, latest_ms = found_times
    last_ms = latest_ms if all_timed else 0
    facts = [
        ("fields with a time to live", timed, metadata.times.timed),
        ("ms as the soonest time of a field", soonest_ms, metadata.times.soonest_ms),
        ("ms as the time when it dies", min(own_ms or last_ms, last_ms or own_ms), metadata.expire_ms),
    ]
    if state.layout.stamps_fields:
        facts.append(("ms as the latest time of a field", latest_ms, metadata.times.latest_ms))
    for what, found, stored in facts:
        if found != stored:
            text = f"{state.name_of(live.metadata_key)} has {found} {what}, by its metadata {stored}"
            yield Violation("times", state.metadata_cf, live.metadata_key, text)


def _differences(state: State, cursor: RecordCursor, live: Live) -> Violations:
    """Which records of one order are without the other one. A look-up for each of both: for damage alone."""
    store, family, prefix = state.store, cursor.column_family, live.prefixes[Kind.TIMES]
    skip = len(prefix) + 1
    get = store.getter(family)
    start, middle, end = (prefix + tag for tag in (BY_FIELD, BY_TIME, bytes((BY_TIME[0] + 1,))))
    for record, packed in store.scan(family, start, middle):
        field = record[skip:]
        if len(packed) == U64.size and get(middle + packed + field) is None:
            text = f"has a time to live for the field {shown(field)} that is not among those by time"
            yield _wrong(state, cursor, live, BY_FIELD + field, text)
    for record, _ in store.scan(family, middle, end):
        packed, field = record[skip:][: U64.size], record[skip + U64.size :]
        if get(start + field) != packed:
            text = f"has the field {shown(field)} among those by time, with a time that is not its own"
            yield _wrong(state, cursor, live, BY_TIME + packed + field, text)


def _wrong(state: State, cursor: RecordCursor, live: Live, subkey: bytes, text: str, kind: str = "times") -> Violation:
    name = state.name_of(live.metadata_key)
    return Violation(kind, cursor.column_family, live.prefixes[cursor.kind] + subkey, f"{name} {text}")
