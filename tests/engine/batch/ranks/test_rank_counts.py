"""The rank counts of large sorted sets: what they say and cost, and that nothing but the commands shapes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from engine.apply.machine import Machine, Record
from engine.batch.ranks import rank_counts
from engine.errors import CorruptionError
from engine.layouts.layout import Form, Kind
from engine.store.memory import MemoryStore
from engine.store.rocks import RocksStore
from engine.store.store import Store
from engine.types.zset import zset_ranges
from engine.values import replies
from engine.values.encoding import pack_score, pack_u64
from tests.consistency import problems
from tests.engine.batch.ranks.sorted_model import Model
from tests.engine.harness import (
    FAMILIES,
    FINGERPRINT,
    HOME,
    apply,
    event,
    feed,
    new_store,
    open_machine,
    records_of,
    send,
)
from tests.engine.stored import is_of, key_of, prefix_of, put, stored
from tests.layouts import layout_of

pytestmark = pytest.mark.form(Form.RANK_COUNTS)

LIMITS: Final = [(0, 2, 2), (4, 3, 6), (20, 8, 16), (9, 13, 13)]
"""Sizes without counts, of a block and of a group: so small that few members make many blocks."""


class WatchedStore(MemoryStore):
    """A store in memory that counts the records of sorted sets' order and counts that scans give, and the scans."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.read = 0
        self.scans = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of the range, each counted when it is taken."""
        records = super().scan(column_family, start, end, reverse=reverse)
        if not is_of(Kind.SCORES, column_family, start) and not is_of(Kind.RANKS, column_family, start):
            return records
        self.scans += 1
        return self._counted(records)

    def _counted(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self.read += 1
            yield record


class _NoHints(dict[int, bytes]):
    """Hints that forget what they are told."""

    def __setitem__(self, version: int, score_key: bytes) -> None:
        pass


def _lower(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int, int]) -> None:
    """Set the limits, and use counts wherever there are some."""
    for name, limit in zip(("PLAIN_SIZE_MAX", "BLOCK_MAX", "GROUP_MAX"), limits, strict=True):
        monkeypatch.setattr(rank_counts, name, limit)
    monkeypatch.setattr(zset_ranges, "_WALKED_MAX", 0)
    monkeypatch.setattr(zset_ranges, "_FEW_MAX", limits[2])


def _filled(store: Store, size: int) -> Machine:
    """A machine whose "z" has the members m0, m1, … with the scores 0, 1, …, all of them written."""
    machine = Machine(store, HOME)
    for start in range(0, size, 1000):
        send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(start, min(start + 1000, size))))
    return machine


def _counts(store: Store) -> list[int]:
    """How many blocks and groups are stored."""
    levels = [record[-len(end) - 1 :][:1] for record, end in _ends(store)]
    return [levels.count(rank_counts.BLOCK), levels.count(rank_counts.GROUP)]


def _ends(store: Store) -> list[tuple[bytes, bytes]]:
    """The records of "z", of all its versions, each with its end."""
    prefix, skip = layout_of().prefix(Kind.RANKS, key_of(b"z")), len(prefix_of(b"z", 1, Kind.RANKS)) + 1
    return [(record, record[skip:]) for record in stored(store, Kind.RANKS) if record.startswith(prefix)]


# -------------------------------------------------------------------------------------------------- against a model


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_those_of_a_model(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int, int], seed: int) -> None:
    """Whatever is added, moved, taken, cut out or copied: places are right, and counts agree with what is stored."""
    _lower(monkeypatch, limits)
    model, store = Model(Random(f"{limits}{seed}")), new_store()
    machine = Machine(store, HOME)
    blocks = 0
    for _ in range(250):
        send(machine, model.change())
        if model.sets["z"]:
            questions = [model.question() for _ in range(4)]
            assert [reply for _, reply in questions] == send(machine, *(line for line, _ in questions))
            blocks = max(blocks, *_counts(store))
        assert [] == problems(store)
        if model.random.random() < 0.1:
            machine = Machine(store, HOME)

    assert blocks > 5


def _changes(seed: int, count: int) -> list[Record]:
    """Events that change sorted sets in all ways."""
    model = Model(Random(seed))
    return [event(offset, model.change()) for offset in range(count)]


@pytest.mark.parametrize("limits", LIMITS)
def test_batches_and_stores_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: tuple[int, int, int]
) -> None:
    """One record at a time or all at once, keys kept or read anew, in memory or RocksDB, with hints or without."""
    _lower(monkeypatch, limits)
    records = _changes(limits[1], 400)
    plain = new_store()
    feed(open_machine(plain), records, 1)
    expected = records_of(plain)
    assert any(name == "zset_rank" for name, _, _ in expected)

    for batch, key_cache_bytes in ((7, 1 << 20), (400, 1 << 20), (3, 0), (1, 1000)):
        store = new_store()
        feed(open_machine(store, key_cache_bytes=key_cache_bytes), records, batch)
        assert expected == records_of(store)
    unaware = new_store()
    machine = open_machine(unaware)
    for record in records:
        machine._tx.floors, machine._tx.ceilings = _NoHints(), _NoHints()
        feed(machine, [record], 1)
    assert expected == records_of(unaware)
    rocks = RocksStore(tmp_path / "0", FAMILIES)
    feed(open_machine(rocks), records, 13)
    assert expected == records_of(rocks)
    rocks.close()


@pytest.mark.parametrize("seed", range(4))
def test_rollbacks_and_restarts_make_no_difference(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Batches that are thrown away and applied again, and machines opened anew, leave the same records."""
    _lower(monkeypatch, LIMITS[1])
    records, random = _changes(seed, 400), Random(seed)
    plain, store = new_store(), new_store()
    feed(open_machine(plain), records, 1)
    machine = open_machine(store)
    while machine.next_offset < len(records):
        machine.apply(records[machine.next_offset :][: random.randrange(1, 9)], machine.next_offset)
        if random.random() < 0.3:
            machine.rollback()
            continue
        machine.commit(FINGERPRINT)
        if random.random() < 0.1:
            machine = open_machine(store)

    assert records_of(plain) == records_of(store)


# ------------------------------------------------------------------------------------------------------ which set has


def test_a_small_set_has_no_counts() -> None:
    """Up to 512 members nothing is counted; one more, and all are; and they stay when the set gets small again."""
    store = new_store()
    machine = _filled(store, 512)
    assert {} == stored(store, Kind.RANKS)

    send(machine, "ZADD z 512 m512")
    assert [8, 1] == _counts(store)
    send(machine, "ZPOPMIN z 500")
    assert [1, 1] == _counts(store)
    assert [5] == send(machine, "ZRANK z m505")


@pytest.mark.parametrize("made", ["ZUNIONSTORE y 1 z", "ZRANGESTORE y z 0 -1", "COPY z y", "RENAME z y"])
def test_every_way_to_make_a_large_set_counts(made: str) -> None:
    """A large set has counts however it came about."""
    store = new_store()
    machine = _filled(store, 1500)

    send(machine, made)

    assert [] == problems(store)
    assert [700] == send(machine, "ZRANK y m700")


def test_counts_die_with_their_set() -> None:
    """A set that is deleted and made again begins without counts; the old ones are orphans of the old version."""
    store = new_store()
    machine = _filled(store, 600)
    orphans = stored(store, Kind.RANKS)

    send(machine, "DEL z", "ZADD z 1 a 2 b")

    assert [1] == send(machine, "ZRANK z b")
    assert orphans == stored(store, Kind.RANKS)
    assert [] == problems(store)


# -------------------------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize(
    "command",
    [
        "ZRANK z m{}",
        "ZREVRANK z m{}",
        "ZRANGE z {} {}",
        "ZREVRANGE z {} {}",
        "ZCOUNT z ({} inf",
        "ZRANGEBYSCORE z -inf inf LIMIT {} 1",
        "ZREVRANGEBYSCORE z inf -inf LIMIT {} 1",
        "ZREMRANGEBYRANK z {} {}",
        "ZRANGESTORE y z {} {}",
        "ZRANDMEMBER z",
    ],
)
def test_no_walk_through_a_large_set(command: str) -> None:
    """Of 30,000 members a command reads a few blocks' worth of records, wherever in the set its place is."""
    store = WatchedStore()
    machine = _filled(store, 30_000)
    for at in (0, 77, 9_999, 15_000, 29_800):
        store.read = 0
        send(machine, command.replace("{}", str(at)))
        assert store.read < 900


def test_places_among_equal_scores_are_counted() -> None:
    """Where all have one score, a range of members and its LIMIT offset do not walk either."""
    store = WatchedStore()
    machine = Machine(store, HOME)
    send(machine, "ZADD z " + " ".join(f"0 m{n:05}" for n in range(20_000)))
    store.read = 0

    expected = [15_000, [b"m12000"], [b"m07999"]]
    assert expected == send(
        machine,
        "ZLEXCOUNT z [m05000 +",
        "ZRANGEBYLEX z [m02000 + LIMIT 10000 1",
        "ZREVRANGEBYLEX z [m17999 - LIMIT 10000 1",
    )
    assert store.read < 2_000


@pytest.mark.parametrize("command", ["ZPOPMIN z", "ZPOPMAX z"])
def test_a_drained_set_keeps_few_counts(command: str) -> None:
    """Blocks that pops have emptied are gone with their members, and each pop reads a few records alone."""
    store = WatchedStore()
    machine = _filled(store, 5_000)
    send(machine, f"{command} 4900")
    store.read = 0

    send(machine, *[command] * 50)

    assert store.read < 200
    assert _counts(store) <= [2, 1]


def test_scattered_removals_join_blocks() -> None:
    """A set of which one member in fifty is left has no more blocks than those few are worth."""
    store = new_store()
    machine = _filled(store, 6_400)

    send(machine, *("ZREM z " + " ".join(f"m{n}" for n in range(k, 6_400, 50)) for k in range(1, 50)))

    assert [128] == send(machine, "ZCARD z")
    assert _counts(store)[0] <= 9
    assert [] == problems(store)


def test_appending_seeks_once() -> None:
    """Where the last addition was, the next one finds its block without a seek: a time line costs two gets."""
    store = WatchedStore()
    machine = _filled(store, 3_000)
    send(machine, "ZADD z 3000 next")
    store.scans = 0

    send(machine, *(f"ZADD z {n} m{n}" for n in range(3_001, 3_021)))

    assert store.scans <= 2


@pytest.mark.parametrize("command", ["ZRANGE z 1 -1", "ZREVRANGE z 1 -1", "ZRANGE z 100 -1"])
def test_a_range_that_is_too_much_for_a_reply_is_not_read(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Its members are taken one after the other, also where the other end of the set is nearer to the range."""
    store = WatchedStore()
    machine = _filled(store, 10_000)
    monkeypatch.setattr(replies, "REPLY_BYTES_MAX", 10_000)
    store.read = 0

    (reply,) = send(machine, command)

    assert str(reply).startswith("ERR the reply would be larger")
    assert store.read < 2_000


def test_counts_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a set that has grown since its counts were read: its new blocks are held too."""
    monkeypatch.setattr(rank_counts, "HELD_MAX", 50)
    store = new_store()
    machine = _filled(store, 12_000)
    holders = machine._tx._families.rank_holders

    held = [
        len(each.groups.ends) + sum(len(blocks.ends) for blocks in each.blocks.values())
        for each in holders.sets
        if each.groups is not None
    ]

    assert sum(held) <= holders.records < 150


# ------------------------------------------------------------------------------------------------------------- damage


def _damaged(level: bytes, size: int) -> Machine:
    """A machine for a set of which the counts of one level are deleted."""
    store = new_store()
    _filled(store, size)
    put(store, Kind.RANKS, *((record, None) for record, end in _ends(store) if record.endswith(level + end)))
    return open_machine(store)


@pytest.mark.damaging
@pytest.mark.parametrize("level", [rank_counts.BLOCK, rank_counts.GROUP])
@pytest.mark.parametrize("command", ["ZADD z 1 new", "ZREM z m5", "ZRANGE z 500 501"])
def test_missing_counts_stop_the_partition(level: bytes, command: str) -> None:
    """Counts that are not there are damage, not a wrong reply."""
    machine = _damaged(level, 1200)

    with pytest.raises(CorruptionError):
        apply(machine, event(machine.next_offset, command))


@pytest.mark.damaging
def test_counts_that_contradict_each_other_are_not_kept() -> None:
    """A read that has met damaged counts does not leave them in memory for the next one, which would believe them."""
    store = new_store()
    _filled(store, 1200)
    block = next(record for record, end in _ends(store) if record.endswith(rank_counts.BLOCK + end))
    put(store, Kind.RANKS, (block, pack_u64(5)))
    machine = open_machine(store)

    for _ in range(2):
        with pytest.raises(CorruptionError):
            machine.read(b"ZRANK", [b"z", b"m300"])


@pytest.mark.damaging
def test_missing_score_records_stop_the_partition() -> None:
    """A block that has fewer members than its count says is damage, whether it is read or split."""
    store = new_store()
    _filled(store, 600)
    put(store, Kind.SCORES, *((record, None) for record in list(stored(store, Kind.SCORES))[30:]))
    machine = open_machine(store)

    many = "ZADD z " + " ".join(f"599 n{n}" for n in range(100))
    for command in ("ZRANGE z 400 401", "ZRANGE z 2 40", "ZREVRANGE z 0 9", many):
        with pytest.raises(CorruptionError):
            apply(machine, event(machine.next_offset, command))
        machine.rollback()


def test_the_end_is_above_every_score_key() -> None:
    """The highest score with the highest member is below the end of the last block."""
    assert pack_score(float("inf")) + b"\xff" * 9 < rank_counts.END
