"""Finds records in the column families of a layout that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from engine.batch.staging import MARK
from engine.layouts.indexed import IndexedStore
from engine.layouts.layout import Kind
from engine.layouts.records import column_families, shadowed_records
from engine.proof.audit.violation import State, Violation, Violations
from engine.store.store import LOCAL_CF
from engine.values.encoding import pack_u64, prefix_end


def check_strays(state: State) -> Violations:
    """Every record that lies between the kinds. O(1) where there is none: one seek for each gap."""
    for column_family in column_families(state.layout):
        for start, end in _gaps(state, column_family):
            for record, _ in state.store.scan(column_family, start, end):
                text = f"the record {record.hex()} in {column_family} is of no kind that the layout has"
                yield Violation("unreadable", column_family, record, text)


def check_index(state: State) -> Violations:
    """Every set in an index outside of the store that the state does not know of: nothing would ever delete it."""
    store, layout = state.store, state.layout
    if not isinstance(store, IndexedStore):
        return
    family = layout.families[Kind.COUNTS]
    get_count, get_local = store.getter(family), store.getter(LOCAL_CF)
    for name, metadata_key, version in store.versions():
        is_known = get_count(layout.prefix(Kind.COUNTS, metadata_key, version)) is not None
        if not is_known and get_local(MARK + pack_u64(version)) is None:
            text = f"the index has a sorted set of {state.name_of(metadata_key)} that the state does not have"
            yield Violation("orphans", family, name, text)


def check_shadowed(state: State) -> Violations:
    """Every earlier record of a key that has a metadata record: nobody reads it before that one goes."""
    for record, metadata_key in shadowed_records(state.store, state.layout):
        text = f"an earlier record of {state.name_of(metadata_key)}, which has a metadata record"
        yield Violation("orphans", state.layout.families[Kind.EARLIER], record, text)


def _gaps(state: State, column_family: str) -> Iterator[tuple[bytes, bytes | None]]:
    """The ranges of a column family in which no kind has records."""
    layout = state.layout
    prefixes = sorted(layout.kind_prefix(kind) for kind, family in layout.families.items() if family == column_family)
    start = b""
    for prefix in prefixes:
        if not prefix:
            return  # all of it is of one kind
        if start < prefix:
            yield start, prefix
        start = prefix_end(prefix)
    yield start, None
