"""Reads that the part in C answers have the bytes and the hits of `Machine.evaluate`; it leaves the others."""

from __future__ import annotations

import random
from array import array
from itertools import accumulate
from sys import getsizeof
from typing import Any, Final

import pytest

from engine.apply.machine import Machine, Record
from engine.batch.ranks.rank_records import COUNT_BYTES, Stretches
from engine.commands.registry import SPECS
from engine.errors import CommandError, DueError
from engine.native import READS
from engine.values.replies import Reply
from resp.wire.encode import encode2, encode3
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, new_store
from tests.engine.native.twins import CountingStore, machine_of, reader_of, running

_SIZE: Final = 3000  # members, so that there are several groups
_BOUNDS: Final = [
    "-inf",
    "inf",
    "+inf",
    "(17",
    "17",
    "-0",
    "-5",
    "(-5",
    "2999",
    "(2999",
    "9" * 15,
    "9" * 16,
    "1.5",
    "(",
    "",
    "x",
]


class Sender:
    """A machine on the part in C, and what it is told."""

    def __init__(self) -> None:
        with running(natively=True):
            self.machine = Machine(new_store(), HOME)  # not one that looks at changes: that one writes in Python

    def __call__(self, *words: str, commit: bool = True) -> None:
        """Apply one command."""
        name, *args = (word.encode() for word in words)
        record: Record = (self.machine.next_offset, NOW_MS, name, list(args), 0, None, None)
        self.machine.apply([record], record[0])
        if commit:
            self.machine.commit(FINGERPRINT)

    def both(self, *words: str, wall_ms: int = 0, resp3: bool = False) -> tuple[bool, object, object]:
        """Whether C answers it, what it says, and what Python says: bytes and whether it is a hit."""
        command = [word.encode() for word in words]
        parts: list[bytes] = []
        run = reader_of(self.machine)
        end, hits, size = run(READS[command[0]], [command], 0, wall_ms, resp3, parts)
        said = b"".join(parts), hits
        assert size == len(said[0])
        try:
            reply: Reply = self.machine.evaluate(SPECS[command[0]], command[1:], 0, wall_ms)
        except (CommandError, DueError):
            return bool(end), said, None
        hit = bool(reply) or isinstance(reply, bytes)
        return bool(end), said, ((encode3 if resp3 else encode2)(reply), int(hit))


@pytest.fixture
def sender() -> Sender:
    """Large sorted sets: each score once, 40 members of each score, and one with pops; and other keys."""
    send = Sender()
    for first in range(0, _SIZE, 500):
        some = range(first, first + 500)
        send("ZADD", "z", *(word for n in some for word in (str(n), f"m{n}")))
        send("ZADD", "same", *(word for n in some for word in (str(n // 40), f"m{n}")))
        send("ZADD", "popped", *(word for n in some for word in (str(n), f"m{n}")))
    send("ZPOPMIN", "popped", "30")
    send("ZADD", "small", "1", "m1", "2", "m2")
    send("HSET", "h", "m1", "v", "empty", "")
    send("HSET", "timed", "m1", "v")
    send("HPEXPIRE", "timed", "1000", "FIELDS", "1", "m1")
    send("SET", "text", "v")
    send("SET", "gone", "v")
    send("DEL", "gone")
    return send


def drawn(chance: random.Random) -> list[str]:
    """A read of any kind, often unusual."""
    key = chance.choice(["z", "z", "z", "same", "popped", "small", "h", "timed", "text", "gone", "never"])
    member = f"m{chance.randrange(-1, _SIZE + 2)}" if chance.random() < 0.8 else chance.choice(["m1", "empty", ""])
    number = str(
        chance.choice([0, 1, 15, 16, 17, 18, -1, -2, -20, 127, 128, 129, _SIZE - 1, _SIZE, chance.randrange(_SIZE)])
    )
    low = chance.choice(_BOUNDS) if chance.random() < 0.4 else str(chance.randrange(_SIZE))
    high = chance.choice(_BOUNDS) if chance.random() < 0.4 else str(chance.randrange(_SIZE))
    limit = [chance.choice(["LIMIT", "limit", "LIMIT", "LIMITS"])]
    limit += chance.choices(["0", "1", "10", "16", "17", "64", "65", "-1", "x"], [5, 5, 5, 1, 1, 1, 1, 1, 1], k=2)
    span = str(int(number) + chance.choice([0, 1, 9, 63, 64, -1])) if chance.random() < 0.7 else number
    return chance.choice(
        [
            ["HGET", key, member],
            ["ZRANK", key, member],
            ["ZRANK", key, member],
            ["ZRANK", key, member, "WITHSCORE"],
            ["ZCOUNT", key, low, high],
            ["ZCOUNT", key, low, high],
            ["ZRANGE", key, number, span],
            ["ZRANGE", key, number, span],
            ["ZRANGE", key, low, high, chance.choice(["BYSCORE", "byscore", "REV", "BYLEX"]), *limit],
            ["ZRANGE", key, low, high, "BYSCORE"],
            ["ZRANGEBYSCORE", "z", low, high, *limit],
            ["ZRANGEBYSCORE", key, low, high, "WITHSCORES"],
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_it_answers_is_what_python_says(sender: Sender, seed: int) -> None:
    """Whatever is asked, whatever was changed since, written or not: the same bytes and hits, in RESP2 and in RESP3."""
    chance = random.Random(seed)
    answered = dict.fromkeys(READS, 0)
    for _ in range(3000):
        if chance.random() < 0.05:
            member, score = f"m{chance.randrange(_SIZE)}", str(chance.randrange(_SIZE))
            change = chance.choice(
                [
                    ["ZADD", "z", score, member],
                    ["ZREM", "z", member],
                    ["ZADD", "same", "3", member],
                    ["HSET", "h", "m1", score],
                ]
            )
            sender(*change, commit=chance.random() < 0.7)
        words = drawn(chance)
        here, said, expected = sender.both(*words, resp3=chance.random() < 0.5)
        if here:
            answered[words[0].encode()] += 1
            assert expected == said, words

    answered = {name: answered[name] for name in (b"HGET", b"ZRANK", b"ZCOUNT", b"ZRANGE", b"ZRANGEBYSCORE")}
    assert min(answered.values()) > 5, answered


def test_places_follow_blocks_that_are_cut_anew(sender: Sender) -> None:
    """Blocks are split and joined between reads: what is packed of them is theirs, or gone."""
    for round_ in range(20):
        for score in range(0, _SIZE, 23):
            for words in (["ZCOUNT", "z", str(score), "inf"], ["ZRANGE", "z", str(score // 2), str(score // 2 + 3)]):
                here, said, expected = sender.both(*words)
                assert not here or said == expected, words
        begins = 100 * round_ + 500
        for n in range(70):
            sender("ZADD", "z", f"{begins}.{n:02}", f"new{round_}:{n}")
        for n in range(begins - 400, begins - 330):
            sender("ZREM", "z", f"m{n}")
        for stretches in held_stretches(sender.machine, b"z"):
            assert len(stretches.ends) == len(stretches.counts) == len(stretches.scores)
            if stretches.heads is not None:
                heads = [int.from_bytes(end[:8].ljust(8, b"\0")) for end in stretches.ends]
                assert array("Q", stretches.heads).tolist() == heads
            if stretches.sums is not None:
                assert array("q", stretches.sums).tolist() == list(accumulate(stretches.counts))


@pytest.mark.parametrize("seed", range(3))
def test_places_after_changes_are_answered(sender: Sender, seed: int) -> None:
    """After each ZADD and ZREM, written or not, by C and as a plain model says; ranks of equal scores may be left."""
    chance = random.Random(seed)
    model = {f"m{n}": float(n) for n in range(_SIZE)}
    for score in range(0, _SIZE, 20):
        sender.both("ZCOUNT", "z", str(score), "+inf")
    blocks = sum(len(each.ends) for each in held_stretches(sender.machine, b"z"))
    for step in range(300):
        member = f"m{chance.randrange(1000, 1100)}"
        placed = 1000 + chance.choice([step / 3, float(step // 9)])
        if step % 2:
            member = f"new{step}"
        if step % 5 == 0:
            sender("ZREM", "z", member, commit=chance.random() < 0.7)
            model.pop(member, None)
        else:
            sender("ZADD", "z", str(placed), member, commit=chance.random() < 0.7)
            model[member] = placed
        low, member = chance.randrange(950, 1150), chance.choice([member, f"m{chance.randrange(1000, 1100)}"])
        above = b":%d\r\n" % sum(each >= low for each in model.values())
        assert (True, (above, 1)) == sender.both("ZCOUNT", "z", str(low), "+inf")[:2]
        if member in model:
            place = model[member], member
            rank = b":%d\r\n" % sum((each, name) < place for name, each in model.items())
            alone = list(model.values()).count(model[member]) == 1
            here, said, expected = sender.both("ZRANK", "z", member)
            assert here or not alone  # others of its score may be in another block
            assert (rank, 1) == expected
            assert not here or said == expected
    assert sum(len(each.ends) for each in held_stretches(sender.machine, b"z")) > blocks  # some were split


def test_a_rank_count_takes_what_is_estimated(sender: Sender) -> None:
    """Within an eighth, when Python and C have both made of it what they search."""
    for score in range(0, _SIZE, 3):
        for words in (["ZCOUNT", "z", str(score), "inf"], ["ZRANK", "z", f"m{score}"]):
            sender.both(*words)
    held = held_stretches(sender.machine, b"z")
    taken = 0
    for each in held:
        assert each.totals
        assert each.heads
        assert each.sums
        parts = [each, each.ends, each.counts, each.totals, each.heads, each.sums, *each.ends, *each.totals]
        taken += sum(getsizeof(part) for part in parts) + sum(getsizeof(count) for count in each.counts if count > 256)
    counts = sum(len(each.ends) for each in held)
    assert taken * 7 < counts * COUNT_BYTES * 8 < taken * 9


def held_stretches(machine: Machine, name: bytes) -> list[Stretches]:
    """The groups of a sorted set, and their blocks, as far as they are in memory and something of them is packed."""
    key = machine._tx.find(name)
    assert key is not None
    ranks = key.ranks
    assert ranks is not None
    held = [each for each in (ranks.groups, *ranks.blocks.values()) if each is not None]
    assert any(each.heads for each in held)
    assert any(each.sums for each in held)
    return held


def test_usual_reads_are_answered(sender: Sender) -> None:
    """Once scores are in memory: ranks, counts, ranges of up to 64 members by rank and, with a LIMIT, by score."""
    asked = [
        ["HGET", "h", "m1"],
        ["HGET", "h", "none"],
        ["HGET", "gone", "m1"],
        ["ZRANK", "z", "m1700"],
        ["ZRANK", "z", "none"],
        ["ZRANK", "gone", "m1"],
        ["ZCOUNT", "z", "(17", "2000"],
        ["ZCOUNT", "z", "-inf", "+inf"],
        ["ZCOUNT", "gone", "1", "2"],
        ["ZRANGE", "z", "1500", "1509"],
        ["ZRANGE", "z", "-64", "-1"],
        ["ZRANGE", "z", "0", "9"],
        ["ZRANGE", "z", "1500", "+inf", "BYSCORE", "LIMIT", "0", "10"],
        ["ZRANGEBYSCORE", "z", "(1500", "+inf", "LIMIT", "3", "10"],
    ]
    for words in asked:
        sender.machine.evaluate(SPECS[words[0].encode()], [word.encode() for word in words[1:]], 0)
    for words in asked:
        here, said, expected = sender.both(*words)
        assert (True, expected) == (here, said), words


def test_what_is_unusual_is_left(sender: Sender) -> None:
    """Hints of pops, equal scores, small sets, other types, keys that are due."""
    sender("SET", "p", "v", "PX", "1000")
    sender("ZADD", "z", "5", "m1700")
    sender("PEXPIRE", "same", "1000")
    for words, wall_ms in (
        (["ZRANK", "popped", "m100"], 0),
        (["ZRANGE", "popped", "100", "109"], 0),
        (["ZCOUNT", "popped", "100", "109"], 0),
        (["ZRANK", "same", "m100"], 0),
        (["ZCOUNT", "same", "1", "3"], NOW_MS + 1000),
        (["ZRANK", "small", "m1"], 0),
        (["ZCOUNT", "small", "1", "2"], 0),
        (["HGET", "timed", "m1"], 0),
        (["HGET", "text", "m1"], 0),
        (["ZRANK", "text", "m1"], 0),
        (["ZRANGE", "z", "0", "64"], 0),
        (["ZRANGE", "z", "5", "4"], 0),
        (["HGET", "never asked for", "m1"], 0),
    ):
        assert not sender.both(*words, wall_ms=wall_ms)[0], words


def test_a_run_ends_where_it_is_unusual(sender: Sender) -> None:
    """Several reads in one call: those up to the first that is left, 64 at most, by the spelling of the first one."""
    run = reader_of(sender.machine)
    for field, expected in ((b"m1", 64), (b"m2", 64)):
        parts: list[bytes] = []
        assert expected == run(1, [[b"HGET", b"h", field]] * 70, 0, 0, False, parts)[0]
    commands = [[b"HGET", b"h", b"m1"], [b"HGET", b"h", b"empty"], [b"hget", b"h", b"m1"]]
    parts = []

    assert ((2, 2, 13), [b"$1\r\nv\r\n$0\r\n\r\n"]) == (run(1, commands, 0, 0, False, parts), parts)
    assert (0, 0, 0) == run(1, [[b"HGET", b"h"]], 0, 0, False, [])
    assert (0, 0, 0) == run(99, commands, 0, 0, False, [])


@pytest.mark.parametrize("seed", range(4))
def test_long_runs_in_a_large_collection(sender: Sender, seed: int) -> None:
    """Commands of a run are looked ahead for: each has the reply that Python has, also as elements come and go."""
    chance = random.Random(seed)
    size = 5000
    for first in range(0, size, 500):
        some = range(first, first + 500)
        sender("ZADD", "large", *(word for n in some for word in (str(n), f"m{n}")))
        sender("HSET", "fields", *(word for n in some for word in (f"m{n}", f"v{n}")))
    answered = 0
    for _ in range(20):
        for n in chance.choices(range(size), k=20):
            gone = chance.random() < 0.5
            sender(*(("ZREM", "large", f"m{n}") if gone else ("ZADD", "large", str(chance.randrange(size)), f"m{n}")))
            sender(*(("HDEL", "fields", f"m{n}") if gone else ("HSET", "fields", f"m{n}", "x" * chance.randrange(200))))
        name, key, others = chance.choice([("ZRANK", "large", ["z", "never"]), ("HGET", "fields", ["h", "never"])])
        commands = [[name, key, f"m{chance.randrange(size + 50)}"] for _ in range(chance.randrange(1, 70))]
        for n in range(len(commands)):
            if chance.random() < 0.02:
                commands[n] = chance.choice([[name, chance.choice(others), "m1"], [name, key], [name]])
        run, at = [[word.encode() for word in command] for command in commands], 0
        read = reader_of(sender.machine)
        while at < len(run):
            parts: list[bytes] = []
            end, _, _ = read(READS[name.encode()], run, at, 0, False, parts)
            spec = SPECS[name.encode()]
            assert b"".join(parts) == b"".join(
                encode2(sender.machine.evaluate(spec, command[1:], 0, 0)) for command in run[at:end]
            )
            if len(run[end : end + 1]) and len(run[end]) == 3:
                sender.machine.evaluate(spec, run[end][1:], 0, 0)  # what is in no memory is read
            answered += end - at
            at = end + 1
    assert answered > 200


def test_reads_of_several_partitions(sender: Sender) -> None:
    """Each command is answered by the partition of its key, up to one that is not served or left in the middle."""
    other = Sender()
    for machine in (sender, other):
        machine("HSET", "{b}h", "f", "first" if machine is sender else "second")  # slot 3300
        machine("HSET", "{a}h", "f", "first" if machine is sender else "second")  # slot 15495
        for field in ("{b}h", "{a}h"):
            machine.both("HGET", field, "f")
    commands = [[b"HGET", b"{a}h", b"f"], [b"HGET", b"{b}h", b"f"], [b"HGET", b"{a}h", b"f"]]
    parts: list[bytes] = []

    assert (3, 3, 35) == reader_of(sender.machine, other.machine)(1, commands, 0, 0, False, parts)
    assert [b"$6\r\nsecond\r\n$5\r\nfirst\r\n$6\r\nsecond\r\n"] == parts
    assert 1 == reader_of(None, other.machine)(1, commands, 0, 0, False, [])[0]
    assert 0 == reader_of(sender.machine, None)(1, commands, 0, 0, False, [])[0]
    sender.machine.is_held = True
    assert 1 == reader_of(sender.machine, other.machine)(1, commands, 0, 0, False, [])[0]
    sender.machine.is_held = False


def test_strings_of_several_partitions(sender: Sender) -> None:
    """As of elements."""
    other = Sender()
    sender("SET", "b", "first")  # slot 3300
    other("SET", "a", "second")  # slot 15495
    commands = [[b"GET", b"b"], [b"GET", b"a"], [b"GET", b"b"]]
    parts: list[bytes] = []

    assert (3, 3, 34) == reader_of(sender.machine, other.machine)(0, commands, 0, 0, False, parts)
    assert [b"$5\r\nfirst\r\n$6\r\nsecond\r\n$5\r\nfirst\r\n"] == parts
    assert 1 == reader_of(sender.machine, None)(0, commands, 0, 0, False, [])[0]


def test_keys_of_several_slots_are_left(sender: Sender) -> None:
    """In a cluster SINTER answers CROSSSLOT then, which is Python's to say."""
    for name in ("{b}1", "{b}2", "{f}"):  # slots 3300 and 3168: one partition
        sender("SADD", name, "m")
        sender.both("SMEMBERS", name)
    one, two = reader_of(sender.machine), reader_of(sender.machine, sender.machine)

    assert 1 == one(11, [[b"SINTER", b"{b}1", b"{f}"]], 0, 0, False, [])[0]
    assert 0 == two(11, [[b"SINTER", b"{b}1", b"{f}"]], 0, 0, False, [])[0]
    assert 1 == two(11, [[b"SINTER", b"{b}1", b"{b}2"]], 0, 0, False, [])[0]


def test_a_failing_store_is_left_to_python() -> None:
    """A read that fails is none of its replies: what Python says of it is the store's own error."""
    store = CountingStore()
    machine = machine_of(store, natively=True)
    words: list[Any] = [b"h", b"f", b"v"]
    machine.apply([(0, NOW_MS, b"HSET", words, 0, None, None)], 0)
    machine.commit(FINGERPRINT)
    again = machine_of(store, natively=True)  # which keeps nothing of the hash in memory
    assert again.evaluate(SPECS[b"HGET"], [b"h", b"f"], 0) == b"v"
    run = reader_of(again)
    store.fails_at = len(store.reads) + 1

    assert (0, 0, 0) == run(1, [[b"HGET", b"h", b"g"]], 0, 0, False, [])
    assert len(store.reads) == store.fails_at
    store.fails_at = -1


def test_it_reads_what_the_batch_has_changed(sender: Sender) -> None:
    """Members that are not committed: their ranks and counts are those of now."""
    sender("ZADD", "z", "100000", "new", commit=False)
    sender.machine.evaluate(SPECS[b"ZCOUNT"], [b"z", b"99999", b"+inf"], 0)

    assert (True, (b":1\r\n", 1), (b":1\r\n", 1)) == sender.both("ZCOUNT", "z", "99999", "+inf")
