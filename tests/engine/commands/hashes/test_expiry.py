"""Fields expire as the log's clock moves, and the hash with the last of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.layouts.layout import Form, Kind
from engine.model import HASH, Metadata, Times
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.types.hash.field_expiry import remove_due
from engine.values.encoding import pack_u64
from engine.values.replies import OK
from tests.consistency import problems
from tests.engine import harness
from tests.engine.harness import FINGERPRINT, NOW_MS, apply, event, family, feed, new_store, open_machine, send, shape
from tests.engine.stored import described, described_times, key_of, stored, subkeys_of
from tests.layouts import layout_of

pytestmark = pytest.mark.form(Form.FIELD_TIMES)

KEY = key_of(b"h")
VERSION = NOW_MS * 1000 << 11  # of a key made at NOW_MS
FAR_MS = 4_102_444_800_000


def metadata(*, size: int, timed: int, soonest_ms: int) -> Metadata:
    """The metadata of a hash in its timed form that never expires, as `described_times` gives it."""
    return Metadata(HASH, 0, 0, size, times=Times(timed, 0, soonest_ms))


def key_expire_ms(store: MemoryStore) -> int:
    """When the hash dies, by its metadata."""
    return described(store)[KEY].expire_ms


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


@pytest.fixture
def machine(store: MemoryStore) -> Machine:
    """The machine of that store."""
    return open_machine(store)


# ------------------------------------------------------------------ what is stored


def test_the_first_time_to_live_gives_a_hash_its_timed_form(machine: Machine, store: MemoryStore) -> None:
    """A record by field and one by time for each field that has one; counts and the soonest time in the metadata."""
    send(machine, "HSET h a 1 b 2 c 3", f"HPEXPIREAT h {FAR_MS} FIELDS 2 a b", f"HPEXPIREAT h {FAR_MS - 1} FIELDS 1 b")
    by_field = {b"\0a": pack_u64(FAR_MS), b"\0b": pack_u64(FAR_MS - 1)}
    by_time = {b"\1" + pack_u64(FAR_MS - 1) + b"b": b"", b"\1" + pack_u64(FAR_MS) + b"a": b""}

    assert {KEY: metadata(size=3, timed=2, soonest_ms=FAR_MS - 1)} == described_times(store)
    assert {**by_field, **by_time} == subkeys_of(store, b"h", Kind.TIMES)


def test_the_timed_form_stays(machine: Machine, store: MemoryStore) -> None:
    """Until the hash dies, whatever becomes of its fields; a new hash of that name is a plain one."""
    send(machine, "HSETEX h EX 9 FIELDS 1 a 1", "HSET h b 2", "HPERSIST h FIELDS 1 a")
    timed = described_times(store), stored(store, Kind.TIMES)
    send(machine, "HDEL h a b", "HSET h a 1")

    assert ({KEY: metadata(size=2, timed=0, soonest_ms=0)}, {}) == timed
    assert [None] == [metadata.times for metadata in described(store).values()]


def test_what_does_nothing_leaves_a_hash_plain(machine: Machine, store: MemoryStore) -> None:
    """Absent fields, conditions that do not hold, times that have come: no field has a time to live."""
    send(machine, "HSET h a 1 b 2 c 3")
    commands = [
        "HEXPIRE h 9 FIELDS 1 none",
        "HEXPIRE h 9 XX FIELDS 1 a",
        "HEXPIRE h 0 FIELDS 1 b",
        "HGETEX h FIELDS 1 a",
    ]

    assert [[-2], [0], [2], [b"1"]] == send(machine, *commands)
    assert [1, [-1], [b"1"]] == send(
        machine, "HSETEX h PXAT 1 FIELDS 1 c 3", "HPERSIST h FIELDS 1 a", "HGETEX h PERSIST FIELDS 1 a"
    )
    assert [None] == [metadata.times for metadata in described(store).values()]
    assert {} == stored(store, Kind.TIMES)


# ------------------------------------------------------------------ the clock


READS = {
    "HGETALL h": [(b"c", b"3")],
    "HKEYS h": [b"c"],
    "HVALS h": [b"3"],
    "HLEN h": 1,
    "HGET h a": None,
    "HMGET h a b c": [None, None, b"3"],
    "HEXISTS h a": 0,
    "HSTRLEN h a": 0,
    "HRANDFIELD h 9": [b"c"],
    "HRANDFIELD h -2 WITHVALUES": [(b"c", b"3"), (b"c", b"3")],
    "HTTL h FIELDS 3 a b c": [-2, -2, -1],
    "HPEXPIRETIME h FIELDS 1 a": [-2],
    "HDEL h a b": 0,
    "HPERSIST h FIELDS 1 a": [-2],
    "HEXPIRE h 9 FIELDS 1 a": [-2],
    "HEXPIRE h 0 FIELDS 1 a": [-2],
    "HGETEX h EX 9 FIELDS 2 a b": [None, None],
    "HGETDEL h FIELDS 1 a": [None],
    "HSETEX h FXX FIELDS 1 a 1": 0,
}


@pytest.mark.parametrize("command", READS)
def test_a_due_field_is_absent(machine: Machine, store: MemoryStore, command: str) -> None:
    """From the millisecond on at which it dies, though nothing of it is removed."""
    send(machine, "HSET h a 1 b 2 c 3", "HPEXPIRE h 10 FIELDS 2 a b")
    before = send(machine, "HLEN h", "HKEYS h", at_ms=NOW_MS + 9)
    kept = stored(store, Kind.DATA), stored(store, Kind.TIMES)

    assert [3, [b"a", b"b", b"c"]] == before
    assert [READS[command]] == send(machine, command, at_ms=NOW_MS + 10)
    assert kept == (stored(store, Kind.DATA), stored(store, Kind.TIMES))


def test_scans_pass_a_due_field_by(machine: Machine) -> None:
    """HSCAN, and OBJECT ENCODING, which no event may contain."""
    send(machine, "HSET h a 1 b 2 c 3", "HPEXPIRE h 10 FIELDS 2 a b")
    send(machine, "TICK", at_ms=NOW_MS + 10)

    assert [b"0", [b"c", b"3"]] == machine.read(b"HSCAN", [b"h", b"0"])
    assert b"hashtable" == machine.read(b"OBJECT|ENCODING", [b"h"])


@pytest.mark.parametrize(
    ("command", "reply", "value", "ttl_ms"),
    [
        ("HSET h a 5", 1, b"5", -1),
        ("HMSET h a 5", OK, b"5", -1),
        ("HSETNX h a 5", 1, b"5", -1),
        ("HINCRBY h a 5", 5, b"5", -1),
        ("HINCRBYFLOAT h a 5", b"5", b"5", -1),
        ("HSETEX h KEEPTTL FIELDS 1 a 5", 1, b"5", -1),
        ("HSETEX h FNX PX 7 FIELDS 1 a 5", 1, b"5", 7),
    ],
)
def test_a_due_field_that_is_written_is_new(
    machine: Machine, store: MemoryStore, command: str, reply: Any, value: bytes, ttl_ms: int
) -> None:
    """It counts as new, begins at nothing, and nothing is left of its time to live."""
    send(machine, "HSET h a 1 b 2", "HPEXPIRE h 10 FIELDS 1 a")

    replies = send(machine, command, "HGET h a", "HPTTL h FIELDS 1 a", "HLEN h", at_ms=NOW_MS + 10)

    assert [shape(one) for one in (reply, value, [ttl_ms], 2)] == [shape(one) for one in replies]
    assert [] == problems(store)


@pytest.mark.parametrize(
    ("command", "ttl_ms"),
    [
        ("HSET h a 5", -1),
        ("HMSET h a 5", -1),
        ("HSETEX h FIELDS 1 a 5", -1),
        ("HSETNX h a 5", 10),
        ("HINCRBY h a 5", 10),
        ("HINCRBYFLOAT h a 5", 10),
        ("HSETEX h KEEPTTL FIELDS 1 a 5", 10),
        ("HGETEX h FIELDS 1 a", 10),
    ],
)
def test_what_a_write_does_to_a_time_to_live(machine: Machine, command: str, ttl_ms: int) -> None:
    """A field that is set lives for ever, one that is incremented dies when it would have."""
    send(machine, "HSET h a 1 b 2", "HPEXPIRE h 10 FIELDS 1 a", command)

    assert [[ttl_ms]] == send(machine, "HPTTL h FIELDS 1 a")


def test_fields_named_twice(machine: Machine) -> None:
    """What the first one does is there for the second one."""
    commands = {
        "HSET h a 1 b 2 c 3 d 4": 4,
        "HPEXPIRE h 9 NX FIELDS 2 a a": [1, 0],
        "HPERSIST h FIELDS 2 a a": [1, -1],
        "HPEXPIRE h 0 FIELDS 2 a a": [2, -2],
        "HGETDEL h FIELDS 2 b b": [b"2", None],
        "HGETEX h PXAT 1 FIELDS 2 c c": [b"3", None],
        "HGETEX h PX 9 FIELDS 2 d d": [b"4", b"4"],
        "HSETEX h PX 9 FIELDS 3 e 1 f 2 e 3": 1,
        "HGETALL h": [(b"d", b"4"), (b"e", b"3"), (b"f", b"2")],
    }

    assert list(commands.values()) == send(machine, *commands)


# ------------------------------------------------------------------ the whole hash


def test_a_hash_dies_with_its_last_field(machine: Machine, store: MemoryStore) -> None:
    """When all fields have a time to live, the key has one too, that no command shows."""
    send(machine, "HSETEX h PX 10 FIELDS 2 a 1 b 2", "HPEXPIRE h 20 FIELDS 1 b")
    shown = send(machine, "TTL h", "PEXPIRETIME h", "PERSIST h", "EXPIRE h 9 XX", "EXPIRE h 9 GT", at_ms=NOW_MS + 10)

    assert [-1, -1, 0, 0, 0] == shown
    assert {pack_u64(NOW_MS + 10) + KEY: b"\1"} == family(store, "expiry")  # the sooner field's: a sweep comes for it
    assert [1, 1] == send(machine, "EXISTS h", "HLEN h", at_ms=NOW_MS + 19)
    assert [0, 0, OK, b"none"] == send(machine, "EXISTS h", "HLEN h", "SET h none", "GET h", at_ms=NOW_MS + 20)


def test_a_field_that_stays_keeps_the_hash(machine: Machine, store: MemoryStore) -> None:
    """One without a time to live, whether it comes late or has lost its own."""
    send(machine, "HSETEX h PX 10 FIELDS 2 a 1 b 2", "HSET h c 3")
    mixed = key_expire_ms(store)
    send(machine, "HDEL h c", "HPERSIST h FIELDS 1 a")

    assert (0, 0) == (mixed, key_expire_ms(store))
    assert [[b"a"], 1, 0] == send(machine, "HKEYS h", "HDEL h a", "EXISTS h", at_ms=NOW_MS + 10)


@pytest.mark.parametrize(
    "command", ["HDEL h c", "HGETDEL h FIELDS 1 c", "HEXPIRE h 0 FIELDS 1 c", "HGETEX h EX 0 FIELDS 1 c"]
)
def test_a_hash_without_a_living_field_is_deleted(machine: Machine, store: MemoryStore, command: str) -> None:
    """The last field that is alive takes those that are due with it, as orphans."""
    send(machine, "HSETEX h PX 10 FIELDS 2 a 1 b 2", "HSET h c 3")
    send(machine, command, at_ms=NOW_MS + 10)

    assert {} == stored(store, Kind.METADATA)
    assert [3 - 1] == [int.from_bytes(content[1:9], "big") for content in family(store, "graveyard").values()]
    assert [] == problems(store)


def test_the_key_s_own_time_to_live(machine: Machine, store: MemoryStore) -> None:
    """It is shown, compared and carried by itself, and counts where it comes before the last field's."""
    steps: list[tuple[str, Any]] = [
        ("HSETEX h PX 10 FIELDS 1 a 1", 1),
        ("PEXPIRE h 30", 1),
        ("PTTL h", 30),
        ("PEXPIRE h 20 GT", 0),
        ("PEXPIRE h 20 LT", 1),
        ("HPEXPIRE h 40 FIELDS 1 a", [1]),
        ("HPTTL h FIELDS 1 a", [40]),
        ("COPY h g", 1),
        ("PTTL g", 20),
        ("PERSIST g", 1),
        ("PTTL g", -1),
        ("HPTTL g FIELDS 1 a", [40]),
        ("RENAME g k", OK),
        ("PTTL k", -1),
    ]

    assert [reply for _, reply in steps] == send(machine, *(command for command, _ in steps))
    assert [NOW_MS + 20, NOW_MS + 40] == sorted(int.from_bytes(entry[:8], "big") for entry in family(store, "expiry"))
    assert [0, 1] == send(machine, "EXISTS h", "EXISTS k", at_ms=NOW_MS + 20)
    assert [] == problems(store)


def test_a_string_keeps_the_key_s_own_time(machine: Machine) -> None:
    """SET with KEEPTTL in the place of a hash whose fields die sooner."""
    send(machine, "HSETEX h PX 10 FIELDS 1 a 1", "SET h 1 KEEPTTL", "HSETEX g PX 10 FIELDS 1 a 1", "PEXPIRE g 30")

    assert [-1, OK, 30] == send(machine, "PTTL h", "SET g 1 KEEPTTL", "PTTL g")


def test_copies_have_the_fields_times(machine: Machine, store: MemoryStore) -> None:
    """COPY, RENAME and MOVE: the fields die there as they would have here."""
    send(machine, "HSET h a 1 b 2", "HPEXPIRE h 10 FIELDS 1 a", "COPY h g", "RENAME h k", "MOVE k 1")

    assert [[10, -1]] == send(machine, "HPTTL g FIELDS 2 a b")
    assert [[10, -1]] == send(machine, "HPTTL k FIELDS 2 a b", db=1)
    assert [[b"b"]] == send(machine, "HKEYS g", at_ms=NOW_MS + 10)
    assert [[b"b"]] == send(machine, "HKEYS k", at_ms=NOW_MS + 10, db=1)
    assert [] == problems(store)


# ------------------------------------------------------------------ batches and cleaning

NAMES = [b"h", b"g", b"k"]
FIELDS = [b"%c%d" % (letter, number) for letter in b"ab" for number in range(8)]
COMMANDS = [
    *(b"HPEXPIRE K T FIELDS 2 F F", b"HPEXPIRE K T GT FIELDS 1 F", b"HPERSIST K FIELDS 1 F", b"HINCRBY K F V"),
    *(b"HSETEX K PX T FIELDS 1 F V", b"HSETEX K KEEPTTL FIELDS 2 F V F V", b"HSETEX K FXX FIELDS 1 F V"),
    *(b"HGETEX K PX T FIELDS 1 F", b"HDEL K F F", b"HGETDEL K FIELDS 1 F", b"HSETNX K F V", b"PEXPIRE K T"),
    *(b"PERSIST K", b"COPY K K REPLACE", b"RENAME K K", b"PTTL K", b"EXISTS K", b"HLEN K", b"HGETALL K", b"TYPE K"),
    *(b"HRANDFIELD K", b"HRANDFIELD K -3", b"HRANDFIELD K 2 WITHVALUES", b"HPEXPIRETIME K FIELDS 2 F F"),
    *[b"HSET K F V F V F V", b"HSETEX K PX T FIELDS 2 F V F V"] * 6,
]


def random_event(random: Random, offset: int, at_ms: int) -> Any:
    """One record of a random command."""
    places = {b"K": NAMES[:1] * 8 + NAMES, b"F": FIELDS, b"V": [b"1", b"7"], b"T": [b"1", b"3", b"9", b"30"]}
    words = [random.choice(places.get(word, [word])) for word in random.choice(COMMANDS).split(b" ")]
    return (offset, at_ms, words[0], words[1:], 0, None, None)


def random_events(seed: int, count: int) -> list[Any]:
    """Records of random commands, 0 to 3 ms apart."""
    random, at_ms, records = Random(seed), NOW_MS, []
    for offset in range(count):
        at_ms += random.choice([0, 0, 1, 3])
        records.append(random_event(random, offset, at_ms))
    return records


def shapes(outcomes: dict[int, Any]) -> dict[int, object]:
    """Outcomes that can be compared."""
    return {offset: shape(reply) for offset, reply in outcomes.items()}


@pytest.mark.parametrize("seed", range(4))
def test_batches_make_no_difference(seed: int) -> None:
    """Of any size, with keys kept or read anew: the same bytes, which keep to all rules."""
    records = random_events(seed, 1200)
    states = []
    for batch, key_cache_bytes in ((1, 0), (7, 1 << 20), (1200, 2000)):
        store = new_store()
        feed(open_machine(store, key_cache_bytes=key_cache_bytes), records, batch)
        assert [] == problems(store)
        states.append(harness.records_of(store))

    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("seed", range(4))
def test_cleaning_changes_no_reply_and_no_digest(seed: int) -> None:
    """Due fields that are removed now and then, some or all, are not missed: not by draws either."""
    records = random_events(seed, 1200)
    random = Random(seed)
    left, cleaned = open_machine(new_store()), open_machine(clean := new_store())
    removed = 0
    for record in records:
        replies = [apply(machine, record).outcomes for machine in (left, cleaned)]
        assert shapes(replies[0]) == shapes(replies[1]), record
        if random.random() < 0.3:
            for name in NAMES:
                key = cleaned._tx.find(name)
                removed += remove_due(cleaned._tx, key, random.choice([1, 2, 100])) if key is not None else 0
        if random.random() < 0.2:
            left.commit(FINGERPRINT)
            cleaned.commit(FINGERPRINT)
            assert [] == problems(clean)
            states = [digest(machine._store, layout_of(), machine.clock_ms) for machine in (left, cleaned)]
            assert states[0] == states[1]

    assert removed > 40


def test_cleaning_is_bounded_and_goes_on(machine: Machine, store: MemoryStore) -> None:
    """The fields that died first go first, at most so many; of what lives nothing goes."""
    send(
        machine,
        "HSET h a 1",
        "HSETEX h PX 5 FIELDS 1 d 1",
        "HSETEX h PX 4 FIELDS 2 b 1 c 1",
        "HSETEX h PX 6 FIELDS 1 e 1",
    )
    apply(machine, event(machine.next_offset, "TICK", at_ms=NOW_MS + 5))
    key = machine._tx.find(b"h")
    assert key is not None

    counts = [remove_due(machine._tx, key, 2), remove_due(machine._tx, key, 2), remove_due(machine._tx, key, 2)]
    machine.commit(FINGERPRINT)

    assert [2, 1, 0] == counts
    assert {KEY: metadata(size=2, timed=1, soonest_ms=NOW_MS + 6)} == described_times(store)
    assert [b"a", b"e"] == list(subkeys_of(store, b"h"))


def test_a_plain_hash_has_nothing_to_clean(machine: Machine) -> None:
    """It has no fields that die."""
    send(machine, "HSET h a 1")
    key = machine._tx.find(b"h")

    assert key is not None
    assert 0 == remove_due(machine._tx, key, 9)


def test_a_hash_of_many_fields_in_rare_use(machine: Machine, store: MemoryStore) -> None:
    """Draws among thousands of living fields, hundreds of which are due, find living ones alone."""
    pairs = [b"%d" % number for number in range(1000) for _ in range(2)]
    due = [b"%d" % number for number in range(0, 1000, 3)]
    offset = machine.next_offset
    machine.apply([(offset, NOW_MS, b"HSET", [b"h", *pairs], 0, None, None)], offset)
    words = [b"h", b"1", b"FIELDS", b"%d" % len(due), *due]
    machine.apply([(offset + 1, NOW_MS, b"HPEXPIRE", words, 0, None, None)], offset + 1)
    drawn = send(machine, "HRANDFIELD h -40", "HRANDFIELD h 2", "HRANDFIELD h", "HLEN h", at_ms=NOW_MS + 1)

    assert 666 == drawn[3]
    assert [] == [field for field in (*drawn[0], *drawn[1], drawn[2]) if field in due]
    assert [] == problems(store)
