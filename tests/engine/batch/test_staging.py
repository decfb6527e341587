"""Large collections staged ahead of their batch: the same bytes, whatever breaks in between, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.apply.machine import Machine, Record
from engine.batch import staging
from engine.batch.staging import MARK
from engine.errors import StoreBusyError
from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.layouts.records import column_families, counter_families
from engine.store.rocks import RocksStore
from engine.store.store import LOCAL_CF, Changes, Store
from engine.tables.system import skip_changes
from engine.values.encoding import parse_u64, prefix_end
from tests.consistency import problems
from tests.engine.harness import (
    FAMILIES,
    FINGERPRINT,
    HOME,
    NOW_MS,
    WatchedStore,
    apply,
    event,
    feed,
    new_store,
    open_machine,
    records_of,
    send,
)
from tests.engine.stored import described, key_of, prefix_of, stored
from tests.engine.workload import random_records

HUGE = 1 << 60
BOUNDS = [0, 1000, HUGE]
"""Bytes: 0 stages every record by itself; 1000 some four of them at a time; the last one never stages."""

FORMS = [
    "RENAME set d",
    "COPY hash d",
    "COPY list d DB 3",
    "MOVE zset 2",
    "COPY text d",
    "SUNIONSTORE d set more",
    "SUNIONSTORE set set more",
    "SINTERSTORE d set more",
    "SDIFFSTORE more set more",
    "ZUNIONSTORE d 2 zset more WEIGHTS 2 3",
    "ZUNIONSTORE zset 2 zset zset",
    "ZINTERSTORE d 2 zset set",
    "ZDIFFSTORE zset 2 zset more",
    "ZRANGESTORE d zset 3 -3",
    "ZRANGESTORE zset zset 100 -2",
    "ZRANGESTORE zset zset +inf -inf BYSCORE REV LIMIT 70 400",
    "SORT list ALPHA DESC STORE list",
]
"""Every way to make a collection out of others, destinations that are sources among them."""

MAKE = [
    "SADD set " + " ".join(f"m{n}" for n in range(40)),
    "SADD more " + " ".join(f"m{n}" for n in range(20, 60)),
    "HSET hash " + " ".join(f"f{n} v{n}" for n in range(30)),
    "HPEXPIRE hash 5000 FIELDS 3 f1 f2 f3",
    "RPUSH list " + " ".join(f"e{n}" for n in range(30)),
    "ZADD zset " + " ".join(f"{n % 7} m{n}" for n in range(600)),
    "SETRANGE text 140000 end",
    "PEXPIRE list 100000",
    "SADD d old",
]

NAMES = [b"set", b"more", b"hash", b"list", b"zset", b"text"]
READS = {
    b"string": [b"GET"],
    b"hash": [b"HGETALL"],
    b"list": [b"LRANGE", b"0", b"-1"],
    b"set": [b"SMEMBERS"],
    b"zset": [b"ZRANGE", b"0", b"-1", b"WITHSCORES"],
}


@pytest.fixture(params=BOUNDS)
def bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """What may be pending of a collection, in bytes."""
    bound: int = request.param
    monkeypatch.setattr(staging, "STAGED_BYTES", bound)
    return bound


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few records are staged."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 1000)


class BreakingStore(WatchedStore):
    """A store in memory that raises at the writes that were named, before or after they happened."""

    def __init__(self, fails_at: int, error: Exception, *, written: bool = False) -> None:
        super().__init__()
        self.writes_left = fails_at
        self.error = error
        self.written = written

    def write(self, changes: Changes) -> None:
        """Write, or fail once."""
        self.writes_left -= 1
        if self.writes_left == -1:
            if self.written:
                super().write(changes)
            raise self.error
        super().write(changes)


def all_forms() -> list[Record]:
    """Each form in turn, on collections that are made anew for it, and what happens to the result."""
    lines: list[str] = []
    for form in FORMS:
        lines += [*MAKE, form, "SREM d m1 m2", "ZREM d m5", "HDEL d f4", "SADD set again", "FLUSHDB"]
    return [event(n, line, at_ms=NOW_MS + n // 3) for n, line in enumerate(lines)]


def staged(store: Store) -> dict[bytes, bytes]:
    """The marks of what is staged and not named."""
    return dict(store.scan(LOCAL_CF, MARK, prefix_end(MARK)))


def left_of(records: list[Record], batch: int) -> list[tuple[str, bytes, bytes]]:
    """The records that are left when `records` were applied in batches of that size."""
    store = new_store()
    feed(open_machine(store), records, batch)
    assert [] == problems(store)
    assert {} == staged(store)
    return records_of(store)


@pytest.fixture(scope="module")
def one_by_one() -> list[tuple[str, bytes, bytes]]:
    """The records that each form leaves in a batch of its own, without staging."""
    return left_of(all_forms(), 1)


@pytest.mark.parametrize("batch", [1, 6, 1000])
def test_every_form_writes_the_same_bytes(bound: int, batch: int, one_by_one: list[tuple[str, bytes, bytes]]) -> None:
    """Staged or not, one record at a time or all in one batch, flushes between them: the same records, and no mark."""
    assert one_by_one == left_of(all_forms(), batch)


@pytest.mark.parametrize("seed", range(4))
def test_random_sequences_write_the_same_bytes(bound: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likewise of random commands and transactions of all kinds."""
    records = random_records(seed, 700)
    staged = [left_of(records, batch) for batch in (1, 50, 700)]
    monkeypatch.setattr(staging, "STAGED_BYTES", HUGE)

    assert [left_of(records, 1)] * 3 == staged


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_the_copy_of_another(form: str) -> None:
    """What a form wrote is there at once, within the batch, and a destination is replaced as a whole."""
    contents = []
    for batched in (True, False):
        machine = open_machine(new_store())
        lines = [*MAKE, form]
        if batched:
            apply(machine, *(event(n, line) for n, line in enumerate(lines)))
        else:
            send(machine, *lines)
        contents.append([content(machine, name, db) for name in (b"d", *NAMES) for db in (0, 2, 3)])

    assert contents[0] == contents[1]
    assert any(contents[0])


def content(machine: Machine, name: bytes, db: int) -> object:
    """What a key holds and when it dies."""
    kind = machine.read(b"TYPE", [name], db)
    command, *args = READS.get(kind, [b"EXISTS"])
    return kind, machine.read(command, [name, *args], db), machine.read(b"PEXPIRETIME", [name], db)


# ------------------------------------------------------------------------------------------------- what breaks between


def survive(store: WatchedStore, records: list[Record], batch: int) -> None:
    """Apply all of `records`, going on after every failure as a service does: from what the store says."""
    machine = open_machine(store)
    while machine.position.next_offset < len(records):
        start = machine.next_offset
        try:
            machine.apply(records[start : start + batch], start)
            machine.commit(FINGERPRINT)
        except StoreBusyError:
            machine.rollback()
            assert machine.next_offset == machine.position.next_offset
        except OSError:
            machine = open_machine(store)


def some_forms() -> list[Record]:
    """A few forms in one batch, with others around them."""
    lines = [*MAKE, "ZUNIONSTORE d 2 zset set", "INCR n", "SUNIONSTORE set set more", "RENAME hash h", "COPY list l"]
    return [event(n, line) for n, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("error", "written"),
    [(StoreBusyError("a stall"), False), (OSError("not written"), False), (OSError("written"), True)],
    ids=["busy", "failed before", "failed after"],
)
def test_a_failure_at_any_write_makes_no_difference(
    error: Exception, *, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each single write, staging or naming: busy, or failed and reopened. Applied again it is the same."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 10_000)
    records = some_forms()
    untroubled = WatchedStore()
    survive(untroubled, records, 100)
    assert len(untroubled.batches) > 20

    for fails_at in range(len(untroubled.batches)):
        store = BreakingStore(fails_at, error, written=written)
        survive(store, records, 100)
        assert store.writes_left < 0
        assert records_of(untroubled) == records_of(store)
        assert {} == staged(store)


@pytest.mark.usefixtures("_eager")
def test_the_store_s_own_failure_is_passed_on() -> None:
    """A store that is busy or broken in the middle of a record is not a fault of that record: nothing stops there."""
    for error in (StoreBusyError("a stall"), OSError("a disk")):
        machine = open_machine(BreakingStore(1, error))
        send(machine, MAKE[0])
        with pytest.raises(type(error), match=str(error)):
            apply(machine, event(1, "INCR n"), event(2, "COPY set d"))
        assert 1 == machine.next_offset


@pytest.mark.usefixtures("_eager")
def test_a_skipped_record_leaves_nothing_behind() -> None:
    """What it had staged is gone with the next batch, and the next record takes the same version for the same key."""
    store = BreakingStore(3, OSError("a disk"))
    machine = open_machine(store)
    send(machine, MAKE[0], MAKE[1])
    with pytest.raises(OSError, match="a disk"):
        apply(machine, event(2, "SUNIONSTORE d set"))
    (mark,) = staged(store)
    version = parse_u64(mark[-8:])
    assert any(record.startswith(prefix_of(b"d", version)) for record in stored(store, Kind.DATA))

    store.write(skip_changes(2))
    machine = open_machine(store)
    assert [] == list(apply(machine, event(2, "SUNIONSTORE d set")).outcomes)
    apply(machine, event(3, "SINTERSTORE d set more"))
    machine.commit(FINGERPRINT)

    assert version == described(store)[key_of(b"d")].version
    assert [b"m%d" % n for n in range(20, 40)] == machine.read(b"SMEMBERS", [b"d"])
    assert [] == problems(store)
    assert {} == staged(store)


@pytest.mark.usefixtures("_eager")
def test_a_rollback_leaves_nothing_behind() -> None:
    """What was staged before it goes with the next batch, whatever that is, and only then the mark."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, MAKE[0], "SADD d old")
    before = records_of(store)
    apply(machine, event(2, "SUNIONSTORE d set"))
    machine.rollback()
    assert [b"old"] == machine.read(b"SMEMBERS", [b"d"])
    assert before != records_of(store)

    machine.commit(FINGERPRINT)
    assert before == records_of(store)
    assert {} == staged(store)


@pytest.mark.parametrize("again", [1000, HUGE], ids=["staged", "in its batch"])
def test_rank_counts_that_were_staged_are_written_again(
    again: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In RocksDB, too, where they take the place of what is there."""
    families, counters = column_families(NeoKV), counter_families(NeoKV)
    with closing(RocksStore(tmp_path / "0", families, counters=counters)) as store:
        machine = open_machine(store)
        send(machine, MAKE[5])
        monkeypatch.setattr(staging, "STAGED_BYTES", 1000)
        apply(machine, event(1, "COPY zset d"))
        machine.rollback()
        monkeypatch.setattr(staging, "STAGED_BYTES", again)
        send(machine, "COPY zset d")

        assert 300 == machine.read(b"ZREVRANK", [b"d", machine.read(b"ZRANGE", [b"d", b"299", b"299"])[0]])
        assert [] == problems(store)


@pytest.mark.usefixtures("_eager")
def test_reads_between_do_not_forget_what_is_to_be_cleared() -> None:
    """A read with nothing pending forgets what it has loaded, not the versions that were never named."""
    store = WatchedStore()
    machine = open_machine(store)
    send(machine, MAKE[0])
    apply(machine, event(1, "SUNIONSTORE d set"))
    machine.rollback()
    machine.read(b"SCARD", [b"d"])
    machine.commit(FINGERPRINT)

    assert {} == staged(store)
    assert [] == problems(store)


@pytest.mark.usefixtures("_eager")
def test_marks_are_broken_by_what_is_staged() -> None:
    """A watched key that a staged command replaces, fills or renames was modified."""
    for form in ("SUNIONSTORE d set", "COPY set d REPLACE", "RENAME set d", "ZUNIONSTORE d 1 zset"):
        machine = open_machine(new_store())
        session = b"s" * 16
        send(machine, *MAKE)
        at = machine.next_offset
        watch = (at, NOW_MS, b"WATCH", [b"d"], 0, None, session)
        execute = (at + 2, NOW_MS, b"EXEC", [[b"INCR", b"n"]], 0, None, session)
        applied = apply(machine, watch, event(at + 1, form), execute)

        assert "NIL_ARRAY" == repr(applied.outcomes[at + 2])


# ------------------------------------------------------------------------------------------------------------- memory


class MeasuringStore(WatchedStore):
    """A store in memory that keeps the size of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, changes: Changes) -> None:
        """Measure and write."""
        self.sizes.append(
            sum(len(key) + len(value or b"") for records in changes.values.values() for key, value in records.items())
        )
        super().write(changes)


@pytest.mark.usefixtures("_eager")
def test_a_transaction_of_many_copies_is_bounded() -> None:
    """Each copy is below the bound: together they are staged all the same."""
    store = MeasuringStore()
    machine = open_machine(store)
    send(machine, "SADD s 1 2 3")
    send(machine, [[b"SUNIONSTORE", b"d%d" % n, b"s"] for n in range(200)])

    assert len(store.sizes) > 150
    assert max(store.sizes[1:-1]) < 500
    assert [] == problems(store)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "form", ["RENAME za d", "ZUNIONSTORE d 2 za zb", "SUNIONSTORE d sa sb", "SINTERSTORE sa sa sb"]
)
def test_memory_is_bounded(tmp_path: Path, form: str) -> None:
    """A form on sorted sets or sets of 100,000 members takes less than the memory of 40,000 of them."""
    store = RocksStore(tmp_path / "0", FAMILIES)
    machine = Machine(store, HOME)
    send(machine, *filling(100_000, "z" if "za" in form else "s"))

    tracemalloc.start()
    machine.apply([event(machine.next_offset, form)], machine.next_offset)
    machine.commit(FINGERPRINT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * staging.STAGED_BYTES
    store.close()


def filling(count: int, kind: str) -> Iterator[str]:
    """The commands that make a set or sorted set of `count` members, and a second one that shares most of them."""
    for name, start in ((f"{kind}a", 0), (f"{kind}b", count // 10)):
        for first in range(start, start + count, 50_000):
            members = range(first, first + 50_000)
            if kind == "z":
                yield f"ZADD {name} " + " ".join(f"{n % 1000} m{n:07}" for n in members)
            else:
                yield f"SADD {name} " + " ".join(f"m{n:07}" for n in members)
