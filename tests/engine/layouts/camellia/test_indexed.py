"""Sorted sets of camellia-v1 in an index outside of the store are as in the store, also after a crash."""

from __future__ import annotations

from hashlib import md5
from random import Random

import pytest

from engine.apply.machine import Machine
from engine.batch.staging import MARK
from engine.cleaning.all import clean_all
from engine.conversion import convert
from engine.errors import CorruptionError, IndexUnavailableError, StateMismatchError
from engine.layouts import make_layout
from engine.layouts.index import BATCH, IndexChanges, pack_batch, parse_batch
from engine.layouts.indexed import IndexedStore
from engine.layouts.layout import Indexing
from engine.layouts.records import column_families
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import LOCAL_CF, Changes, Store
from engine.tables.system import Home
from engine.values.encoding import pack_score
from slotlog.shared.slots import partition_of, slot
from tests.consistency import problems
from tests.engine.harness import FINGERPRINT, apply, event, family, new_store, open_machine, send, shape
from tests.layouts import layout_of
from tests.layouts.held_index import HeldIndex

pytestmark = pytest.mark.layout("camellia-v1")

LONG = "m" * 20
MEMBERS = ["a", "b", "c", "", "x" * 14, "x" * 15, "y" * 16, LONG]
SCORES = ["0", "0", "1", "-1", "1.5", "inf", "-inf", "1e300", "-1e-300"]
COMMANDS = [
    *("ZADD K S M", "ZADD K S M S M", "ZADD K XX S M", "ZADD K GT CH S M", "ZINCRBY K 2 M", "ZREM K M", "ZREM K M M"),
    *(
        "ZSCORE K M",
        "ZMSCORE K M M",
        "ZRANK K M WITHSCORE",
        "ZREVRANK K M",
        "ZCARD K",
        "ZCOUNT K -inf 1",
        "ZCOUNT K (0 inf",
    ),
    *("ZRANGE K 0 -1 WITHSCORES", "ZRANGE K 1 2 REV", "ZRANGE K 0 1 BYSCORE", "ZRANGE K (1 -inf BYSCORE REV LIMIT 1 2"),
    *("ZRANGE K - + BYLEX", "ZRANGE K (x - BYLEX REV", "ZLEXCOUNT K [a (y", "ZREMRANGEBYLEX K [b [c"),
    *("ZREMRANGEBYRANK K 0 0", "ZREMRANGEBYSCORE K 1 2", "ZPOPMIN K", "ZPOPMAX K 2", "ZRANDMEMBER K 3", "ZSCAN K 0"),
    *("ZUNIONSTORE K 2 K K", "ZINTERSTORE K 2 K K WEIGHTS 2 1", "ZDIFFSTORE K 2 K K", "ZRANGESTORE K K 0 2"),
    *("DEL K", "RENAME K K", "COPY K K", "COPY K K REPLACE", "EXISTS K", "TYPE K", "DUMP K", "EXPIRE K 100", "KEYS *"),
    *("SET K v", "SADD K M", "FLUSHDB", "SWAPDB 0 1", "OBJECT ENCODING K", "SORT K ALPHA", "GEOADD K 13 38 M"),
]


def layout() -> Indexing:
    """The layout, bound to the only partition."""
    found = layout_of()
    assert isinstance(found, Indexing)
    return found


def indexed(store: MemoryStore, index: HeldIndex) -> IndexedStore:
    """A store whose sorted sets are in `index`."""
    return IndexedStore(store, layout(), index)


def name_of(key: bytes, version: int) -> bytes:
    """The name that the index has for a version of a key of database 0."""
    return b"c#default" + key + version.to_bytes(8)


def test_short_members_are_in_the_index_alone() -> None:
    """A long one is in the store as well, under its MD5, which the index has."""
    store, index = new_store(), HeldIndex()
    machine = open_machine(indexed(store, index))
    send(machine, f"ZADD board 1.5 ann 2 {LONG}")
    (name,) = index.sets
    version = machine.position.last_version
    item = b"\1" + md5(LONG.encode(), usedforsecurity=False).digest()

    assert name_of(b"board", version) == name
    assert {b"\0ann": pack_score(1.5), item: pack_score(2.0)} == index.sets[name]
    place = b"default" + md5(b"board", usedforsecurity=False).digest()[:8]
    rest = place + (5).to_bytes(4) + b"board" + version.to_bytes(8)
    assert {
        b"m#" + place + b"board": b"\1\3" + version.to_bytes(8) + b"\xff" * 8,
        b"i#" + rest + item: LONG.encode(),
    } == family(store, "camellia")
    assert {b"n#" + rest: (2).to_bytes(8)} == family(store, "index")


def test_members_of_one_score_come_in_their_order() -> None:
    """The index has the long ones by their MD5, and behind all short ones; a reply has all by their bytes."""
    machine = open_machine(indexed(new_store(), HeldIndex()))
    members = sorted(f"{n}" * length for n in range(10) for length in (1, 14, 15, 30))
    send(machine, "ZADD z " + " ".join(f"0 {member}" for member in members))
    expected = [member.encode() for member in members]

    assert expected == machine.read(b"ZRANGE", [b"z", b"0", b"-1"])
    assert expected[::-1] == machine.read(b"ZREVRANGE", [b"z", b"0", b"-1"])
    assert expected[5:9] == machine.read(b"ZRANGE", [b"z", b"[" + expected[5], b"(" + expected[9], b"BYLEX"])
    assert expected.index(b"3" * 15) == machine.read(b"ZRANK", [b"z", b"3" * 15])


@pytest.mark.parametrize("seed", range(4))
def test_a_state_with_an_index_is_one_without(seed: int) -> None:
    """Random commands on both: the same replies, the same digest, and nothing is wrong with either at the end."""
    random = Random(seed)
    places = {"K": ["k", "l"], "M": MEMBERS, "S": SCORES}
    index, plain = HeldIndex(), new_store()
    stores: list[Store] = [plain, indexed(new_store(), index)]
    machines = [open_machine(store) for store in stores]
    for step in range(600):
        words = random.choice(COMMANDS).split(" ")
        line = " ".join(random.choice(places[word]) if word in places else word for word in words)
        one, other = ([shape(each) for each in send(machine, line)] for machine in machines)
        assert one == other, line
        if step % 50 == 49:
            for machine, store in zip(machines, stores, strict=True):
                clean_all(machine, store)
    digests = [digest(store, layout(), 0) for store in stores]

    assert digests[0] == digests[1]
    assert [[], []] == [problems(store) for store in stores]


def test_nothing_stays_in_the_index_of_what_is_gone() -> None:
    """Deleted sets leave it when they are reclaimed, large ones as a whole, and those of a flushed database at once."""
    store, index = new_store(), HeldIndex()
    served = indexed(store, index)
    machine = open_machine(served)
    send(machine, "ZADD small 1 a 2 " + LONG, "ZADD large " + " ".join(f"{n} {n:020}" for n in range(2000)))
    send(machine, "ZADD other 1 a", "DEL small large")
    assert 3 == len(index.sets)
    clean_all(machine, served)
    assert 1 == len(index.sets)
    send(machine, "FLUSHALL")

    assert ({}, {}, {}) == (index.sets, family(store, "camellia"), family(store, "index"))


def test_a_crash_before_the_index_has_the_batch_is_repaired_at_the_next_opening() -> None:
    """The store has the batch and repeats it, once; the log goes on where it was."""
    store, index = new_store(), HeldIndex()
    send(open_machine(indexed(store, index)), "ZADD z 1 a 2 b")
    machine = open_machine(indexed(store, index))
    apply(machine, event(1, "ZINCRBY z 5 a"), event(2, "ZREM z b"), event(3, f"ZADD z 9 {LONG}"))
    before, index.apply = index.apply, _fail  # type: ignore[method-assign, assignment]
    with pytest.raises(IndexUnavailableError):
        machine.commit(FINGERPRINT)
    index.apply = before  # type: ignore[method-assign]

    machine = open_machine(indexed(store, index))
    assert 4 == machine.next_offset
    assert [b"a", 6.0, LONG.encode(), 9.0] == list(_flat(machine.read(b"ZRANGE", [b"z", b"0", b"-1", b"WITHSCORES"])))
    assert [] == problems(indexed(store, index))


def test_a_crash_before_the_store_has_the_batch_leaves_both_as_they_were() -> None:
    """The index is behind the store always, so what was lost is applied again from the log."""
    store, index = new_store(), HeldIndex()
    send(open_machine(indexed(store, index)), "ZADD z 1 a")
    machine = open_machine(indexed(store, index))
    apply(machine, event(1, "ZINCRBY z 5 a"))

    machine = open_machine(indexed(store, index))
    assert [1, 6.0] == [machine.next_offset, *send(machine, "ZINCRBY z 5 a")]


@pytest.mark.parametrize("lost", ["index", "store"])
def test_what_lost_more_than_a_batch_is_refused_and_replay_repairs_it(lost: str) -> None:
    """The opening says which of the two is behind; the log and an empty index give the same state again."""
    store, index = new_store(), HeldIndex()
    machine = open_machine(indexed(store, index))
    lines = ["ZADD z 1 a 2 b", "ZINCRBY z 5 a", f"ZADD z 9 {LONG}", "ZREM z b"]
    for line in lines:
        send(machine, line)
    whole = digest(indexed(store, index), layout(), 0)
    if lost == "index":
        index.sets, index.reached = {}, None
    else:
        store = new_store()
    with pytest.raises(StateMismatchError, match=f"the {'index' if lost == 'index' else 'state'} has lost .* replay"):
        indexed(store, index)

    again = indexed(new_store(), HeldIndex())
    send(open_machine(again), *lines)
    assert whole == digest(again, layout(), 0)


def test_a_state_with_its_sorted_sets_in_itself_takes_no_index() -> None:
    """Else they would be there twice, or not at all."""
    store = new_store()
    send(open_machine(store), "ZADD z 1 a")

    with pytest.raises(StateMismatchError, match="in itself"):
        indexed(store, HeldIndex())


def test_an_index_that_is_away_is_no_fault_of_a_record() -> None:
    """The machine forgets what is not committed and says what is away, so that the partition waits and tries again."""
    store, index = new_store(), HeldIndex()
    send(open_machine(indexed(store, index)), "ZADD z 1 a")
    machine = open_machine(indexed(store, index))  # the score is not in its memory
    index.is_away = True
    with pytest.raises(IndexUnavailableError, match="is away"):
        apply(machine, event(1, "ZINCRBY z 1 a"))
    index.is_away = False

    assert [1, 2.0] == [machine.next_offset, *send(machine, "ZINCRBY z 1 a")]


def test_a_conversion_goes_into_an_index_and_out_of_it() -> None:
    """The digest is the same on the way, and the index has what the other layout had."""
    source, target, back = new_store(), indexed(new_store(), HeldIndex()), _store_of("neokv")
    machine = open_machine(source)
    send(machine, f"ZADD z 1 a 2 {LONG}", "SADD s a", "ZADD gone 1 a", "DEL gone")
    convert(source, layout(), machine.position, target, Home("topic", 0, 1, "camellia-v1"))
    converted = Machine(target, Home("topic", 0, 1, "camellia-v1"))
    convert(target, layout(), converted.position, back, Home("topic", 0, 1, "neokv"))

    digests = {digest(store, layout(), 0) for store in (source, target)} | {digest(back, make_layout("neokv", 0, 1), 0)}
    assert 1 == len(digests)


def test_a_batch_is_read_as_it_was_packed() -> None:
    """Names and items of any bytes, gone ones too; anything else is damage."""
    changes = IndexChanges()
    changes.dropped[b"c#"] = None
    changes.items[b""] = {b"\0": pack_score(0.0), b"\1" * 17: None}
    packed = pack_batch(7, changes)
    number, read = parse_batch(packed)

    assert (7, changes.dropped, changes.items) == (number, read.dropped, read.items)
    for end in (0, 7, 8, 11, len(packed) - 1):
        with pytest.raises(CorruptionError, match="newest batch"):
            parse_batch(packed[:end])


@pytest.mark.damaging
def test_a_long_member_without_its_record_is_damage() -> None:
    """Its hash says nothing, so nothing is guessed."""
    store, index = new_store(), HeldIndex()
    served = indexed(store, index)
    send(open_machine(served), f"ZADD z 1 {LONG}")
    changes = Changes()
    for record in family(store, "camellia"):
        if record.startswith(b"i#"):
            changes.of("camellia")[record] = None
    store.write(changes)

    with pytest.raises(CorruptionError, match="hash of no member"):
        open_machine(served).read(b"ZRANGE", [b"z", b"0", b"-1"])


@pytest.mark.damaging
def test_a_set_that_the_state_does_not_have_is_found() -> None:
    """Of any key and version, but no set that was staged or is dead, and nothing of another partition."""
    store, index = new_store(), HeldIndex()
    served = IndexedStore(store, _of_half(), index)
    machine = Machine(served, Home("topic", 0, 2, "camellia-v1"))
    send(machine, "ZADD z 1 a", "ZADD dead 1 a", "DEL dead")
    changes = Changes()
    changes.of(LOCAL_CF)[MARK + (5).to_bytes(8)] = _of_half().metadata_key(0, slot(b"z"), b"z")
    store.write(changes)
    here, there = (next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), 2) == part) for part in (0, 1))
    known = list(index.sets)
    stray = [b"c#default" + here + bytes(8), b"c#ns00003" + here + bytes(8), known[0][:-8] + (4).to_bytes(8)]
    good = [known[0][:-8] + (5).to_bytes(8), b"c#default" + there + bytes(8), b"c#nsx" + bytes(12), b"board", b"c#"]
    index.sets |= {name: {b"\0a": pack_score(1.0)} for name in stray + good}

    found = [each for each in Audit(served, machine.home).violations() if each.column_family == "index"]
    assert stray == [each.record for each in found]
    assert "orphans: the index has a sorted set of b'z' of database 0 that the state does not have" == str(found[-1])


def test_batches_without_a_sorted_set_leave_the_index_alone() -> None:
    """It is not asked, and its number stays."""
    store, index = new_store(), HeldIndex()
    machine = open_machine(indexed(store, index))
    send(machine, "ZADD z 1 a")
    kept = family(store, LOCAL_CF)[BATCH]
    index.is_away = True
    send(machine, "SET a 1", "HSET h f v", "DEL a")

    assert (1, kept) == (index.reached, family(store, LOCAL_CF)[BATCH])


def _fail(*_: object) -> None:
    raise IndexUnavailableError("killed")


def _of_half() -> Indexing:
    found = make_layout("camellia-v1", 0, 2)
    assert isinstance(found, Indexing)
    return found


def _flat(reply: object) -> list[object]:
    assert isinstance(reply, list)
    return [each for pair in reply for each in (pair if isinstance(pair, list | tuple) else (pair,))]


def _store_of(name: str) -> MemoryStore:
    return MemoryStore(column_families(make_layout(name, 0, 1)))
