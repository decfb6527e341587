"""Audits system records, watches, idempotency keys and node-local records, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final

from engine.batch.staging import MARK
from engine.commands.scripting.library_code import parse
from engine.commands.scripting.shebang import FLAGS
from engine.errors import CommandError, CorruptionError
from engine.layouts import takes_over
from engine.layouts.index import BATCH, parse_batch
from engine.layouts.records import column_families, metadata_records
from engine.limits import DEDUP_REPLY_BYTES_MAX, DEDUP_WINDOW_MS
from engine.model import KEY_TYPES
from engine.proof.audit.violation import State, Violation, Violations, shown
from engine.store.store import DEDUP_CF, LOCAL_CF, SHARED_CFS, SYSTEM_CF
from engine.tables.adoption import EARLIER
from engine.tables.compaction_notes import NOTE, parse_note
from engine.tables.dedup import CURSOR as DEDUP_CURSOR
from engine.tables.dedup import HEADER
from engine.tables.expiry_index import EXPIRY_CURSOR
from engine.tables.graveyard import CURSOR
from engine.tables.libraries import PREFIX as LIBRARY
from engine.tables.libraries import parse_record as parse_library
from engine.tables.scripts import PREFIX as SCRIPT
from engine.tables.scripts import digest_of, parse_record
from engine.tables.system import COUNT, DATABASE, FORMAT, PAIR, REPLAYING, RETIME, RULES, SET_BACK, SKIP
from engine.tables.watches import PREFIX, WATCH
from engine.values.encoding import U32, U64, parse_u64, prefix_end
from engine.values.replies import unpack
from slotlog.shared.limits import DATABASES, ID_BYTES_MAX, SESSION_BYTES
from slotlog.shared.slots import partition_of, slot

_NUMBERS: Final = (b"format", b"partition", b"partitions", b"rules", b"next_offset", b"clock_ms", b"last_version")
_TEXTS: Final = (b"topic", b"layout")

# ----------------------------------------------------------------------------------------------- position and counts


def check_system(state: State) -> Violations:
    """Every record of the column family but the watches; what they say is in `state` then."""
    numbers: dict[bytes, int] = {}
    stored_dbs = list(state.stored_dbs)
    taken: set[bytes] = set()
    names = 0
    for name, value in state.store.scan(SYSTEM_CF, b"", None):
        if name.startswith(PREFIX):
            continue
        if name.startswith(SCRIPT):
            yield from _of_script(name, value)
            continue
        if name.startswith(LIBRARY):
            yield from _of_library(name, value, taken)
            continue
        names += not name.startswith((SKIP, RETIME))
        number = parse_u64(value) if len(value) == U64.size else None
        db = _number_of(name, DATABASE)
        counted = _counted(name)
        if name in _NUMBERS and number is not None:
            numbers[name] = number
        elif _is_pair(name, value):
            if name.startswith(SET_BACK):
                state.set_back_ms = max(state.set_back_ms, PAIR.unpack(value)[0])
        elif counted is not None and number is not None:
            state.counted[counted] = number
        elif db is not None and db < DATABASES and number is not None and db != number < DATABASES:
            stored_dbs[db] = number
        elif not (name in _TEXTS or name == b"fingerprint" or _is_skip(name, value)):
            yield _wrong(name, f"the record {shown(name)} with {shown(value)} is none that there is")
    if sorted(stored_dbs) == list(range(DATABASES)):
        state.stored_dbs = tuple(stored_dbs)
    else:
        yield _wrong(DATABASE, "two databases are stored under one number")
    state.next_offset, state.clock_ms, state.last_version = (numbers.get(name) for name in _NUMBERS[-3:])
    if names or next(metadata_records(state.store, state.layout), None) is not None:
        yield from _check_home(state, numbers)


def _of_script(name: bytes, value: bytes) -> Violations:
    """A script stands under the SHA-1 of its source."""
    script = parse_record(value)
    if script is None or name[len(SCRIPT) :].hex().encode() != digest_of(script.source):
        yield _wrong(name, f"the script {shown(name)} with {shown(value)} is not the one of that name")


def _of_library(name: bytes, value: bytes, taken: set[bytes]) -> Violations:
    """A library stands under the name that its code gives it, and shares no function with those before it.

    `taken` are the names of those before it; its own join them.
    """
    library = parse_library(value)
    if library is None or name[len(LIBRARY) :] != _name_of_library(library.code):
        yield _wrong(name, f"the library {shown(name)} with {shown(value)} is not the one of that name")
        return
    for function in library.functions:
        if function.flags >> len(FLAGS) or function.name.lower() in taken:
            yield _wrong(name, f"the function {shown(function.name)} has unknown flags, or is there twice")
        taken.add(function.name.lower())


def _name_of_library(code: bytes) -> bytes | None:
    try:
        return parse(code).name
    except CommandError:
        return None


def _check_home(state: State, numbers: dict[bytes, int]) -> Violations:
    """The records that every state has, once anything was applied."""
    home, get = state.home, state.store.getter(SYSTEM_CF)
    expected = {b"format": FORMAT, b"partition": home.partition, b"partitions": home.partitions}
    for name in _NUMBERS:
        number = numbers.get(name)
        if number is None:
            yield _wrong(name, f"there is no number {name.decode()}")
        elif number != expected.get(name, number) or (name == b"rules" and number > RULES):
            yield _wrong(name, f"{name.decode()} is {number}")
    for name, text in zip(_TEXTS, (home.topic, home.layout), strict=True):
        stored = (get(name) or b"").decode(errors="replace")
        if stored != text and not (name == b"layout" and takes_over(text, stored)):
            yield _wrong(name, f"{name.decode()} is {shown(get(name) or b'')}, not {text}")


def _counted(name: bytes) -> tuple[int, int] | None:
    """The (stored db, type code) of `count/<db>/<type code>`."""
    db, slash, type_code = name.removeprefix(COUNT).partition(b"/")
    if not name.startswith(COUNT) or not slash or not _is_number(db) or not _is_number(type_code):
        return None
    counted = int(db), int(type_code)
    return counted if counted[0] < DATABASES and counted[1] in KEY_TYPES else None


def _number_of(name: bytes, prefix: bytes) -> int | None:
    digits = name.removeprefix(prefix)
    return int(digits) if name.startswith(prefix) and _is_number(digits) else None


def _is_pair(name: bytes, value: bytes) -> bool:
    """Whether it is a record of two numbers: a clock set back, or a decision on the time of records."""
    named = (_number_of(name, SET_BACK), _number_of(name, RETIME))
    return len(value) == PAIR.size and named != (None, None)


def _is_skip(name: bytes, value: bytes) -> bool:
    """Whether it is an operator's decision to go past a record, or to before a later offset."""
    offset = _number_of(name, SKIP)
    return offset is not None and (not value or (len(value) == U64.size and parse_u64(value) > offset + 1))


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and (digits == b"0" or not digits.startswith(b"0"))


def _wrong(name: bytes, message: str) -> Violation:
    return Violation("unreadable", SYSTEM_CF, name, message)


# ----------------------------------------------------------------------------------------------------------- watches


def check_watches(state: State) -> Violations:
    """Every watch, and every session that has lost one and so has no other record."""
    lost = b""
    for name, value in state.store.scan(SYSTEM_CF, PREFIX, prefix_end(PREFIX)):
        session, place = name[len(PREFIX) :][:SESSION_BYTES], name[len(PREFIX) + SESSION_BYTES :]
        size = WATCH.size if place else U64.size
        if len(session) != SESSION_BYTES or len(value) != size or value[U64.size :] not in {b"", b"\0", b"\1"}:
            yield _wrong(name, f"the watch {shown(name)} with {shown(value)} cannot be read")
            continue
        for text in _of_watch(state, place, parse_u64(value[: U64.size])):
            yield Violation("watches", SYSTEM_CF, name, f"the session {shown(session)} {text}")
        if not place:
            lost = session
        elif session == lost:
            text = f"the session {shown(session)} has lost a watch, and watches {shown(place[1:])}"
            yield Violation("watches", SYSTEM_CF, name, text)


def _of_watch(state: State, place: bytes, time_ms: int) -> Iterator[str]:
    """What is wrong with a watch of `[db:1][key]`, or with a session that has lost one."""
    home = state.home
    if state.is_future(time_ms):
        yield f"has a watch of {time_ms} ms, the clock stands at {state.clock_ms}"
    if not place:
        return
    if place[0] >= (DATABASES if home.partitions == 1 else 1):
        yield f"watches {shown(place[1:])} of database {place[0]}, which is none"
    if home.partitions > 1 and partition_of(slot(place[1:]), home.partitions) != home.partition:
        yield f"watches {shown(place[1:])} of another partition"


# ------------------------------------------------------------------------------------------------ node-local records


def check_local(state: State) -> Violations:
    """Every node-local record but the marks of staging, which are among the keys."""
    sizes = {CURSOR: U64.size, DEDUP_CURSOR: U32.size, REPLAYING: 0, EARLIER: 0}
    for name, value in state.store.scan(LOCAL_CF, b"", None):
        if name.startswith(NOTE):
            try:
                is_good = parse_note(name, value).column_family in (*SHARED_CFS, *column_families(state.layout))
            except CorruptionError:
                is_good = False
        elif name == BATCH:
            is_good = _is_batch(value)
        elif name == EXPIRY_CURSOR:
            is_good = len(value) >= U64.size
        else:
            is_good = name.startswith(MARK) or sizes.get(name) == len(value)
        if not is_good:
            text = f"the node-local record {shown(name)} with {shown(value)} is none that there is"
            yield Violation("unreadable", LOCAL_CF, name, text)


def _is_batch(content: bytes) -> bool:
    try:
        parse_batch(content)
    except CorruptionError:
        return False
    return True


# -------------------------------------------------------------------------------------------------- idempotency keys


def check_dedup(state: State) -> Violations:
    """Every idempotency key and its outcome."""
    for key, record in state.store.scan(DEDUP_CF, b"", None):
        event_id = key[U32.size :]
        try:
            time_ms, offset, kept = HEADER.unpack_from(record)
            packed = record[HEADER.size :]
            if kept:
                unpack(packed)
            is_bad = kept > 1 or (packed and not kept) or len(packed) > DEDUP_REPLY_BYTES_MAX
        except (CorruptionError, StructError):
            is_bad = True
        if is_bad or not 0 < len(event_id) <= ID_BYTES_MAX:
            yield Violation("unreadable", DEDUP_CF, key, f"the idempotency key {shown(key)} cannot be read")
            continue
        for text in _of_outcome(state, key[: U32.size], time_ms, offset):
            yield Violation("dedup", DEDUP_CF, key, f"the idempotency key {shown(event_id)} {text}")


def _of_outcome(state: State, bucket: bytes, time_ms: int, offset: int) -> Iterator[str]:
    """What is wrong with the place and the time of an outcome."""
    expected = time_ms // DEDUP_WINDOW_MS
    if int.from_bytes(bucket) != expected:
        yield f"is in bucket {int.from_bytes(bucket)}, by its time {time_ms} ms that is {expected}"
    if state.is_future(time_ms):
        yield f"is of {time_ms} ms, the clock stands at {state.clock_ms}"
    if state.next_offset is not None and offset >= state.next_offset:
        yield f"is of offset {offset}, the first that is not applied is {state.next_offset}"
