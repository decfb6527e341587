"""Small collections that were read whole stay in memory, and are never answered as they were before a write."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from types import ModuleType
from typing import Final

import pytest

from engine.apply.machine import Machine, Record
from engine.batch import staging
from engine.batch.in_memory import overlay, writing
from engine.batch.in_memory.listings import ELEMENTS_MAX, ENTRY_BYTES, LISTING_BYTES_MAX, TOO_LARGE, Listings
from engine.batch.keys.key import Key
from engine.cleaning.all import clean_all
from engine.cleaning.sweep import Sweeper
from engine.commands.registry import SPECS
from engine.errors import CommandError, DueError
from engine.layouts import DEFAULT_LAYOUT
from engine.layouts.layout import Kind
from engine.model import HASH, LIST, SET, TYPE_NAMES
from engine.native import READS
from resp.wire.encode import encode2, encode3
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, apply, new_store, send, shape
from tests.engine.native.twins import KEY_CACHE_BYTES, part_in_c, reader_of, running
from tests.engine.workload import FIELDS, random_records

pytestmark = pytest.mark.layout(DEFAULT_LAYOUT)

WHOLE: Final = [b"HGETALL", b"HKEYS", b"HVALS", b"LRANGE", b"SMEMBERS", b"SINTER"]
NAMES: Final = [b"a", b"b", b"c", b"{tag}d", b""]
SESSION: Final = b"session of ann.."

COLLECTIONS: Final = [
    *(
        "HSET K F V",
        "HSET K F V F V",
        "HSET K F V",
        "HDEL K F",
        "HSETNX K F V",
        "HINCRBY K F 3",
        "HGETDEL K FIELDS 1 F",
    ),
    *("HPEXPIRE K 4 FIELDS 1 F", "HPERSIST K FIELDS 1 F", "HSETEX K PX 3 FIELDS 1 F V", "HMSET K F V"),
    *(
        "RPUSH K V V",
        "LPUSH K V",
        "LPOP K",
        "RPOP K",
        "LSET K 0 V",
        "LTRIM K 0 3",
        "LREM K 1 V",
        "LINSERT K BEFORE V x",
    ),
    *("LMOVE K K LEFT RIGHT", "RPOPLPUSH K K", "LMPOP 1 K LEFT", "SORT K ALPHA STORE K", "SORT K BY nosort STORE K"),
    *("SADD K F F", "SREM K F", "SPOP K", "SMOVE K K F", "SADD K F", "SINTERSTORE K K K", "SUNIONSTORE K K K"),
    *("DEL K", "DEL K", "UNLINK K", "PEXPIRE K 5", "PERSIST K", "RENAME K K", "RENAMENX K K", "COPY K K REPLACE"),
    *(
        "MOVE K 1",
        "COPY K K DB 1 REPLACE",
        "SWAPDB 0 1",
        "SET K V",
        "PEXPIRE K 100000",
        "EXPIRE K -1",
        "SDIFFSTORE K K K",
    ),
]


class Twins:
    """A machine on the part in C, which holds what was read whole, and one on Python alone, which does not."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.stores = new_store(), new_store()
        with running(natively=True):
            self.native = Machine(self.stores[0], HOME, key_cache_bytes=random.choice([KEY_CACHE_BYTES, 1 << 20]))
        with running(natively=False):
            self.python = Machine(self.stores[1], HOME)
        self.answered = dict.fromkeys(WHOLE, 0)

    @property
    def both(self) -> tuple[Machine, Machine]:
        """Both machines."""
        return self.native, self.python

    def apply(self, record: Record) -> None:
        """Apply a record on both, which give the same replies."""
        replies = [
            [(offset, shape(reply)) for offset, reply in apply(machine, record).outcomes.items()]
            for machine in self.both
        ]
        assert replies[1] == replies[0], record

    def change_more(self) -> None:
        """Something that is no record: a commit, a batch that is thrown away, cleaning, observed commands."""
        chance = self.random.random()
        if chance < 0.08:
            for machine in self.both:
                machine.rollback()
        elif chance < 0.6:
            for machine in self.both:
                machine.commit(FINGERPRINT)
            if chance < 0.15:
                for machine, store in zip(self.both, self.stores, strict=True):
                    Sweeper(machine, store).expire(2) if chance < 0.12 else clean_all(machine, store)
        elif chance < 0.65:
            self.native.witnessing = self.python.witnessing = chance < 0.625

    def read(self, name: bytes) -> None:
        """Each whole read of a key, twice: it is made, and then there."""
        ends = [b"%d" % self.random.choice([0, 0, 1, 2, -1, -1, -3, 9]) for _ in range(2)]
        others = self.random.choices(NAMES, k=self.random.randrange(3))
        for command in WHOLE:
            more = {b"LRANGE": ends, b"SINTER": others}.get(command, [])
            for _ in range(2):
                self.ask([command, name, *more])

    def ask(self, words: list[bytes]) -> None:
        """One of them, by either machine."""
        resp3 = self.random.random() < 0.5
        wall_ms = self.native.clock_ms + self.random.choice([0, 0, 2])
        parts: list[bytes] = []
        run = reader_of(self.native)
        end, hits, _ = run(READS[words[0]], [words], 0, wall_ms, resp3, parts)
        if not end:
            return
        try:
            reply = self.python.evaluate(SPECS[words[0]], words[1:], 0, wall_ms)
        except (CommandError, DueError) as error:
            raise AssertionError(words, parts, error) from error
        assert [(encode3 if resp3 else encode2)(reply)] == parts, words
        assert int(bool(reply)) == hits
        self.answered[words[0]] += 1


def held_of(machine: Machine) -> Listings:
    """What a machine holds."""
    return machine._tx._overlay.listings


def check_held(machine: Machine) -> int:
    """Hold every listing of a key in memory against the store. Returns how many there are."""
    held = held_of(machine)
    store, families = machine._store, machine.layout.families
    fresh = Listings(partial(store.records, families[Kind.DATA]), part_in_c().pack_listing, 1 << 20)
    found = 0
    for keys in machine._tx._overlay.databases.values():
        for key in keys.values():
            if not key.version or key.type not in {HASH, LIST, SET} or key.data.changed or key.data.fresh:
                continue
            listing = held.held.get(key.data.prefix)
            if listing and key.times is None:
                key.data.whole, whole = False, key.data.whole
                assert listing == fresh.make(key), (key.name, TYPE_NAMES[key.type])
                key.data.whole = whole
                found += 1
    assert held.bytes == sum(ENTRY_BYTES + len(listing) for listing in held.held.values())
    return found


def play(seed: int, count: int = 700) -> Twins:
    """Random writes of every kind beside whole reads."""
    random = Random(seed)
    twins = Twins(random)
    general = iter(random_records(seed, count))
    at_ms, held = NOW_MS, 0
    for _ in range(count):
        at_ms += random.choice([0, 0, 0, 1, 2])
        offset = twins.native.next_offset
        chance = random.random()
        if chance < 0.15:
            _, _, name, args, db, *_ = next(general)
            twins.apply((offset, at_ms, name, args, db, None, None))
        elif chance < 0.25:
            commands = [drawn(random) for _ in range(random.randrange(1, 5))]
            twins.apply((offset, at_ms, b"EXEC", commands, 0, None, None))
        elif chance < 0.3:
            twins.apply((offset, at_ms, b"WATCH", [random.choice(NAMES)], 0, None, SESSION))
        elif chance < 0.33:
            twins.apply((offset, at_ms, b"EXEC", [drawn(random)], 0, None, SESSION))
        else:
            name, *args = drawn(random)
            twins.apply((offset, at_ms, name, args, 0, None, None))
        if chance > 0.5:
            twins.change_more()
        for each in NAMES if chance > 0.8 else [random.choice(NAMES)]:
            twins.read(each)
        held += check_held(twins.native)
    assert held > 50
    return twins


def drawn(random: Random) -> list[bytes]:
    """A command that changes collections."""
    places = {"K": NAMES[:4], "F": FIELDS, "V": [b"v", b"", b"1", b"w" * 200]}
    line = random.choice(COLLECTIONS) if random.random() < 0.995 else random.choice(["FLUSHDB", "FLUSHALL"])
    return [random.choice(places[word]) if word in places else word.encode() for word in line.split()]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_whole_reads_are_those_of_a_state_without_this_memory(seed: int) -> None:
    """Random writes of every kind, batches that are thrown away, cleaning, times to live, keys that leave memory."""
    answered = play(seed).answered

    assert min(answered.values()) > 50, answered


def _no_records(*_: object) -> list[tuple[bytes, bytes]]:
    return []


NOTHING_HELD: Final = Listings(_no_records, None, 0)


@pytest.mark.parametrize("planted", ["C", "Python"])
def test_a_write_that_forgets_to_forget_is_found(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    """If keys were marked as written, by either half, and what was listed of them stayed, these plays would show it."""
    marks_natively, marks = writing.mark_natively, writing.mark_written

    def natively(hot: ModuleType, keys: list[Key], _: Listings) -> None:
        marks_natively(hot, keys, NOTHING_HELD)

    def in_python(keys: Iterable[Key], _: Listings) -> None:
        marks(keys, NOTHING_HELD)

    if planted == "C":
        monkeypatch.setattr(overlay, "mark_natively", natively)
    else:
        monkeypatch.setattr(writing, "mark_written", in_python)

    with pytest.raises(AssertionError):
        play(0)


def whole(machine: Machine, *words: str, resp3: bool = False) -> bytes | None:
    """What C says, at the second time; None: it leaves it."""
    command = [word.encode() for word in words]
    parts: list[bytes] = []
    for _ in range(2):
        parts.clear()
        reader_of(machine)(READS[command[0]], [command], 0, 0, resp3, parts)
    return parts[0] if parts else None


@pytest.fixture
def machine() -> Machine:
    """A machine on the part in C."""
    with running(natively=True):
        return Machine(new_store(), HOME)


def test_replies_have_the_form_of_their_command(machine: Machine) -> None:
    """Arrays in RESP2, a map and sets in RESP3; parts of lists; what is not there is empty."""
    send(
        machine,
        "HSET h b 22 a 1",
        "RPUSH l x yy",
        "RPUSH l z",
        "SADD s1 a b c",
        "SADD s2 c bb a",
        "SET gone 1",
        "DEL gone",
    )

    assert b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$2\r\n22\r\n" == whole(machine, "HGETALL", "h")
    assert b"%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$2\r\n22\r\n" == whole(machine, "HGETALL", "h", resp3=True)
    assert b"*2\r\n$1\r\na\r\n$1\r\nb\r\n" == whole(machine, "HKEYS", "h", resp3=True)
    assert b"*2\r\n$1\r\n1\r\n$2\r\n22\r\n" == whole(machine, "HVALS", "h")
    assert b"*3\r\n$1\r\nx\r\n$2\r\nyy\r\n$1\r\nz\r\n" == whole(machine, "LRANGE", "l", "0", "-1")
    assert b"*1\r\n$2\r\nyy\r\n" == whole(machine, "LRANGE", "l", "1", "1")
    assert b"*2\r\n$2\r\nyy\r\n$1\r\nz\r\n" == whole(machine, "LRANGE", "l", "-2", "7")
    assert b"*0\r\n" == whole(machine, "LRANGE", "l", "2", "1")
    assert b"*0\r\n" == whole(machine, "LRANGE", "gone", "0", "1")
    assert b"~3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n" == whole(machine, "SMEMBERS", "s1", resp3=True)
    assert b"~2\r\n$1\r\na\r\n$1\r\nc\r\n" == whole(machine, "SINTER", "s1", "s2", "s1", resp3=True)
    assert b"*0\r\n" == whole(machine, "SINTER", "s1", "gone")
    assert b"%0\r\n" == whole(machine, "HGETALL", "gone", resp3=True)


def test_what_is_unusual_is_left(machine: Machine) -> None:
    """Other types, fields with times to live, what is not written or not in memory, words that are no index."""
    send(machine, "HSET h a 1", "RPUSH l x", "SADD s a", "HSET timed a 1", "HPEXPIRE timed 1000 FIELDS 1 a")
    asked = [["HGETALL", "l"], ["LRANGE", "h", "0", "-1"], ["SMEMBERS", "h"], ["SINTER", "s", "l"], ["HVALS", "timed"]]
    asked += [["LRANGE", "l", "0", "x"], ["HGETALL", "unheard of"], ["SINTER", "s", "unheard of"], ["SINTER"]]
    asked += [["SINTER", *["s"] * 17], ["HGETALL", "h", "h"], ["LRANGE", "l", "0"]]
    for words in asked:
        assert whole(machine, *words) is None, words
    assert whole(machine, "HGETALL", "h") is not None
    apply(machine, (machine.next_offset, NOW_MS, b"HSET", [b"h", b"b", b"2"], 0, None, None))
    apply(machine, (machine.next_offset, NOW_MS, b"HSET", [b"new", b"b", b"2"], 0, None, None))

    assert whole(machine, "HGETALL", "h") is None
    assert whole(machine, "HGETALL", "new") is None


def test_only_what_is_small_is_held(machine: Machine) -> None:
    """Up to so many elements and bytes; what has more bytes is not read for nothing each time."""
    most, more = ELEMENTS_MAX, ELEMENTS_MAX + 1
    send(machine, f"SADD s {' '.join(map(str, range(most)))}", f"SADD more {' '.join(map(str, range(more)))}")
    value = "v" * (LISTING_BYTES_MAX - len(b"NNNN$1\r\nf\r\n$65000\r\n\r\n"))
    send(machine, f"HSET h f {value}", f"HSET long f {value}v")

    assert whole(machine, "SMEMBERS", "s") is not None
    assert whole(machine, "SMEMBERS", "more") is None
    assert whole(machine, "HGETALL", "h") is not None
    assert whole(machine, "HGETALL", "long") is None
    assert {0, LISTING_BYTES_MAX} < set(map(len, held_of(machine).held.values()))
    send(machine, "HSET long f v")
    assert whole(machine, "HGETALL", "long") is not None


def test_all_of_a_partition_is_bounded(machine: Machine) -> None:
    """In bytes. The first ones go first, and those of keys that are deleted with them."""
    send(machine, *(f"HSET h{n} f v" for n in range(40)))
    held_of(machine).bytes_max = 20 * ENTRY_BYTES
    for n in range(40):
        assert whole(machine, "HGETALL", f"h{n}") is not None
        assert 0 < machine.held.listing_bytes == held_of(machine).bytes <= 20 * ENTRY_BYTES
    held = len(held_of(machine).held)
    assert 10 < held < 20
    assert machine._tx._overlay.databases[0][b"h39"].data.prefix in held_of(machine).held

    send(machine, "DEL h39", "HSET h38 f w", "HPEXPIRE h37 1000 FIELDS 1 f", "EXPIRE h36 100", "HSET h0 f w")
    assert held - 3 == len(held_of(machine).held)
    check_held(machine)
    send(machine, "FLUSHDB")
    assert (0, {}) == (held_of(machine).bytes, held_of(machine).held)


def test_what_was_staged_for_a_batch_that_is_thrown_away_is_forgotten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in the store, under a version that is taken again."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    send(machine, "SADD s a b", "SADD t c")
    apply(machine, (machine.next_offset, NOW_MS, b"SDIFFSTORE", [b"d", b"s"], 0, None, None))
    assert b"*2\r\n$1\r\na\r\n$1\r\nb\r\n" == whole(machine, "SMEMBERS", "d")
    version = machine._tx._overlay.databases[0][b"d"].version
    machine.rollback()
    send(machine, "SDIFFSTORE d t", "SADD d e", "SREM d c")
    machine.evaluate(SPECS[b"SMEMBERS"], [b"d"], 0)

    assert version == machine._tx._overlay.databases[0][b"d"].version
    assert b"*1\r\n$1\r\ne\r\n" == whole(machine, "SMEMBERS", "d")


def test_what_the_store_does_not_have_is_left_to_python(machine: Machine) -> None:
    """Records that are missing, and a store that fails: whoever reads without this memory has the words for it."""
    send(machine, "RPUSH l a b", "HSET h a 1")
    key = machine._tx._overlay.databases[0][b"l"]
    held_of(machine)._read = lambda *_: [(b"", b"")]
    assert TOO_LARGE == held_of(machine).make(key)
    assert whole(machine, "LRANGE", "l", "0", "-1") is None
    held_of(machine)._read = _failing
    assert whole(machine, "LRANGE", "l", "0", "-1") is None
    assert {} == held_of(machine).held
    assert whole(machine, "HGETALL", "h") is not None  # all of it is in memory


def _failing(*_: object) -> list[tuple[bytes, bytes]]:
    raise OSError("the disk is away")


@pytest.mark.parametrize(
    "wrong",
    [
        ([], 0, True, True),
        ((), 0, True, True, 9),
        ([(b"k", b"v")], 2, True, True, 9),
        ([(b"k", b"v")], -1, True, True, 9),
        ([(b"k", 1)], 0, True, True, 9),
        ([b"k"], 0, True, True, 9),
    ],
)
def test_what_is_no_list_of_records_is_refused(wrong: tuple[object, ...]) -> None:
    """Instead of memory that is not its own."""
    with pytest.raises(TypeError):
        part_in_c().pack_listing(*wrong)
