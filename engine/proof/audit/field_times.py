"""Audits the times to live of a hash's fields against the fields and the metadata."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from engine.batch.key import BY_FIELD, BY_TIME
from engine.layouts.layout import Kind
from engine.proof.audit.violation import Live, State, Tally, Violation, Violations, shown
from engine.proof.audit.walk import RecordCursor
from engine.values.encoding import U64, parse_u64


def check_times(
    state: State, cursor: RecordCursor, fields: Iterator[bytes], live: Live
) -> Generator[Violation, None, int]:
    """Take the records of times of a hash in its timed form, and its fields. Returns how many fields it has."""
    by_field, by_time = Tally(), Tally()
    prefix = live.prefixes[Kind.TIMES]
    count, soonest_ms, latest_ms = 0, 0, 0
    field = next(fields, None)
    for record, packed in cursor.under(prefix + BY_FIELD):
        while field is not None and field < record:
            count += 1
            field = next(fields, None)
        if field != record:
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
    count += (field is not None) + sum(1 for _ in fields)
    for record, value in cursor.under(prefix + BY_TIME):
        by_time.add(record)
        if value or len(record) < U64.size:
            yield _wrong(state, cursor, live, BY_TIME + record, "has a damaged record by time", kind="unreadable")
    if not by_field.agrees(by_time):
        yield from _differences(state, cursor, live)
    yield from _check_facts(state, live, by_field.count, soonest_ms, latest_ms if by_field.count == count else 0)
    return count


def _check_facts(state: State, live: Live, timed: int, soonest_ms: int, last_ms: int) -> Violations:
    """Compare the metadata with what follows from the records.

    `last_ms` is when the last field dies if all of them have a time to live, else 0.
    """
    metadata = live.metadata
    assert metadata.times is not None
    own_ms = metadata.times.own_expire_ms
    facts = (
        ("fields with a time to live", timed, metadata.times.timed),
        ("ms as the soonest time of a field", soonest_ms, metadata.times.soonest_ms),
        ("ms as the time when it dies", min(own_ms or last_ms, last_ms or own_ms), metadata.expire_ms),
    )
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
