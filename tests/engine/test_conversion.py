"""A state written anew in another layout holds the same, and the log goes on there in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from engine.batch.staging import STAGED_BYTES
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.conversion import convert
from engine.errors import CommandError, CorruptionError, DueLeftError, PartitionStoppedError
from engine.layouts import LAYOUTS
from engine.layouts.layout import Form
from engine.layouts.records import column_families
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.proof.walk import live_keys, raw_records
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF, SYSTEM_CF, Changes
from engine.tables.system import Home, retime_changes, skip_changes
from engine.values.encoding import pack_u64
from engine.values.replies import pack
from slotlog.events import decode
from tests.engine.harness import NOW_MS, send
from tests.engine.proof.lived import lived
from tests.golden import corpus
from tests.layouts import OF_FIELD_TIMES, OF_STREAMS, home_of, layout_name

FINGERPRINT = b"mark"
ODD_NAMES = [b"", b"\x00", b"\xff\x00\xff", b"{}", b"{a}b", b"S", b"k" * 65_536]
OTHERS = sorted(LAYOUTS.keys() - {layout_name()})
EXACT = [name for name in OTHERS if not LAYOUTS[name].differences]
HOLDS_TIMES = [name for name in OTHERS if Form.FIELD_TIMES in LAYOUTS[name].forms]


class State:
    """A state in memory, of any layout."""

    def __init__(self, layout: str, store: MemoryStore | None = None) -> None:
        self.home = Home("topic", 0, 1, layout)
        self.store = store or MemoryStore(column_families(LAYOUTS[layout]))
        self.machine = Machine(self.store, self.home)

    def converted(self, layout: str) -> State:
        """The same state in another layout, which is sound and has the same digest."""
        store = MemoryStore(column_families(LAYOUTS[layout]))
        home = Home("topic", 0, 1, layout)
        convert(self.store, self.machine.layout, self.machine.position, store, home)
        assert [] == list(Audit(store, home).violations())
        new = State(layout, store)
        assert self.digest() == new.digest()
        return new

    def digest(self) -> str:
        """Of what is alive."""
        return str(digest(self.store, self.machine.layout, self.machine.clock_ms))

    def run(self, records: Sequence[Record]) -> list[Any]:
        """Apply records one by one up to one that stops the partition; what each came to."""
        outcomes: list[Any] = []
        for record in records:
            try:
                outcomes.append(self._apply(record))
            except PartitionStoppedError as stop:
                if not isinstance(stop.__cause__, DueLeftError):
                    return [*outcomes, stop.offset]
                sweeper = Sweeper(self.machine, self.store)
                while sweeper.expire(1000).more:
                    pass
                outcomes.append(self._apply(record))
        return outcomes

    def _apply(self, record: Record) -> Any:
        applied = self.machine.apply([record], self.machine.next_offset, [record[0]])
        self.machine.commit(FINGERPRINT)
        return applied.dead_letters or pack(applied.outcomes[record[0]])


def log_of(name: str, layouts: Iterable[str]) -> list[Record]:
    """A recorded log, without what may need a form that one of the layouts has not."""
    records = [decode(each.offset, each.time_ms, each.value) for each in corpus.read_log(name).records]
    refused: set[bytes] = set()
    for form, commands in ((Form.FIELD_TIMES, OF_FIELD_TIMES), (Form.STREAMS, OF_STREAMS)):
        if not all(form in LAYOUTS[layout].forms for layout in layouts):
            refused |= {*commands, b"RESTORE"}
    return [record for record in records if not _commands(record) & refused]


def _commands(record: Record) -> set[bytes]:
    return {command[0].upper() for command in record[3]} if record[2] == b"EXEC" else {record[2]}


@pytest.mark.parametrize("name", ["clocks", "large", "sessions", "workload-0"])
@pytest.mark.parametrize("layout", EXACT)
@pytest.mark.exact
def test_the_log_goes_on(name: str, layout: str) -> None:
    """Half of a log is applied in one layout, and the rest in both: the same outcomes, digest, clock and counts."""
    old = State(layout_name())
    records = log_of(name, [layout_name(), layout])
    old.run(records[: len(records) // 2])
    new = old.converted(layout)
    before, after = old.machine.position, new.machine.position

    assert (before.next_offset, before.clock_ms, before.rules) == (after.next_offset, after.clock_ms, after.rules)
    assert (before.set_backs, before.stored_dbs) == (after.set_backs, after.stored_dbs)
    assert old.run(records[len(records) // 2 :]) == new.run(records[len(records) // 2 :])
    assert old.digest() == new.digest()
    assert old.machine.clock_ms == new.machine.clock_ms
    for state in (old, new):
        clean_all(state.machine, state.store)
    assert old.machine.key_counts == new.machine.key_counts


def full() -> State:
    """A state with every form, each odd name in every type, watches, and decisions of an operator."""
    store = lived()
    store.write(skip_changes(1000, 1005))
    store.write(retime_changes(2000, 2010, 5))
    state = State(layout_name(), store)
    large = b"v" * 65_536
    for name in ODD_NAMES:
        commands = [
            (b"SET", large),
            (b"SET", name),
            (b"HSET", name, large, large, b""),
            (b"RPUSH", name, b"", large),
            (b"SADD", name, b"m", large),
            (b"ZADD", b"-inf", name, b"-0.0", b"zero", b"1e308", large),
        ]
        for db, (command, *args) in enumerate(commands, start=9):  # the same names in each database
            offset = state.machine.next_offset
            state.run([(offset, state.machine.clock_ms, command, [name, *args], db, None, None)])
    return state


def content_of(state: State) -> list[Any]:
    """Every live key with all that it holds."""
    keys = live_keys(state.store, state.machine.layout, state.machine.clock_ms)
    return sorted((key.db, key.name, key.type, key.expire_ms, [*key.content], [*key.field_times]) for key in keys)


def without(state: State, *names: bytes) -> State:
    """The state when these keys of database 7 are deleted, and all that is dead is removed."""
    record = (state.machine.next_offset, state.machine.clock_ms, b"DEL", list(names), 7, None, None)
    state.run([record])
    clean_all(state.machine, state.store)
    return state


@pytest.mark.parametrize(
    ("layouts", "left_out"),
    [(OTHERS, [b"timed", b"whole"]), (HOLDS_TIMES, [])],
    ids=["all", "those with times of fields"],
)
def test_a_round_through_the_layouts(layouts: list[str], left_out: list[bytes]) -> None:
    """From layout to layout and back: every key has its content, and the same records, whatever its name.

    But for the versions of large strings, which some layouts do not have, and for rank counts and those of the entries
    of streams, which are made anew.
    """
    if not all(Form.STREAMS in LAYOUTS[layout].forms for layout in layouts):
        left_out = [*left_out, b"stream", b"empty", b"trimmed"]
    first = without(full(), *left_out)
    last = first
    for layout in layouts:
        last = last.converted(layout)
        assert content_of(first) == content_of(last)
    last = last.converted(layout_name())
    assert first.digest() == last.digest()
    first, last = (without(state, b"large", b"zeros", b"ranked", b"stream") for state in (first, last))
    assert content_of(first) == content_of(last)
    version = {(SYSTEM_CF, b"last_version")}
    before, after = (
        [record for record in raw_records(state.store, state.machine.layout) if record[:2] not in version]
        for state in (first, last)
    )
    assert before == after


@pytest.mark.form(Form.FIELD_TIMES)
def test_a_hash_that_is_written_in_parts_keeps_the_times_of_its_fields() -> None:
    """One of more bytes than may be pending: fields and times come through every layout that holds them."""
    state = State(layout_name())
    fields = [b"%d" % number for number in range(6000)]
    values = [word for field in fields for word in (field, field.ljust(STAGED_BYTES // 4000, b"v"))]
    timed = [b"900000", b"FIELDS", b"%d" % len(fields[::2]), *fields[::2]]
    state.run([(0, NOW_MS, b"HSET", [b"h", *values], 0, None, None)])
    state.run([(1, NOW_MS, b"HPEXPIRE", [b"h", *timed], 0, None, None)])
    last = state
    for layout in [*HOLDS_TIMES, layout_name()]:
        last = last.converted(layout)

    assert content_of(state) == content_of(last)


def test_nothing_dead_is_taken_along() -> None:
    """What deleted collections have left stays behind; keys and fields that are due come along."""
    state = full()
    late_ms = state.machine.clock_ms + 10_000_000
    state.run([(state.machine.next_offset, late_ms, b"TICK", [], 0, None, None)])
    new = state.converted(layout_name())

    assert state.machine.key_counts == new.machine.key_counts
    assert [] == list(new.store.scan(GRAVEYARD_CF, b"", None))
    assert clean_all(new.machine, new.store).keys > 0


@pytest.mark.form(Form.FIELD_TIMES)
@pytest.mark.parametrize("layout", sorted(set(OTHERS) - set(HOLDS_TIMES)))
def test_a_form_that_the_layout_has_not_is_named(layout: str) -> None:
    """The first key that cannot be held is named, and no position is written."""
    state = State(layout_name(), lived())
    store = MemoryStore(column_families(LAYOUTS[layout]))

    with pytest.raises(
        CommandError, match=f"the layout {layout} cannot hold (streams|fields with a time to live), which the key "
    ):
        convert(state.store, state.machine.layout, state.machine.position, store, Home("topic", 0, 1, layout))
    assert [] == list(store.scan(SYSTEM_CF, b"", None))


@pytest.mark.form(Form.FIELD_TIMES)
@pytest.mark.parametrize("layout", sorted(set(OTHERS) - set(HOLDS_TIMES)))
def test_a_hash_that_had_field_times_is_a_plain_one(layout: str) -> None:
    """Where no field has a time to live any more, any layout can hold it, with the key's own time to live."""
    state = State(layout_name())
    send(state.machine, "HSETEX h PX 9000 FIELDS 1 f v", "HPERSIST h FIELDS 1 f", "PEXPIRE h 5000", "HSET h g w")
    new = state.converted(layout)

    assert content_of(state) == content_of(new)


@pytest.mark.damaging
def test_keys_that_are_not_counted_are_damage() -> None:
    """A state whose counts are not those of its keys is refused, with where to look."""
    state = State(layout_name())
    send(state.machine, "SET a 1")
    changes = Changes()
    changes.of(SYSTEM_CF)[b"count/0/1"] = pack_u64(2)
    state.store.write(changes)
    state = State(layout_name(), state.store)
    store = MemoryStore(column_families(LAYOUTS[layout_name()]))

    with pytest.raises(CorruptionError, match="counts 2 keys and has 1; see `slotlog check`"):
        convert(state.store, state.machine.layout, state.machine.position, store, home_of())
