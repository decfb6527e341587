"""Short ranges of large sorted sets from members in memory, beside a plain model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.batch.in_memory.overlay import Overlay
from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_records import RankHolders
from engine.layouts.layout import Form
from engine.native import READS
from tests.engine.harness import FINGERPRINT, HOME
from tests.engine.native.ranges import Ranges
from tests.engine.native.twins import CountingStore, reader_of, running

pytestmark = pytest.mark.form(Form.RANK_COUNTS)


def _range_of(chance: random.Random, size: int, score_max: int) -> tuple[str, ...]:
    """Any range that C may answer."""
    first, wanted = chance.randrange(size), chance.choice([1, 2, 9, 10, 11, 64])
    low, high = chance.randrange(score_max), chance.choice(["+inf", "", "("])
    high += "" if high == "+inf" else str(chance.randrange(score_max))
    low_text = chance.choice(["", "("]) + str(low) if chance.random() < 0.9 else "-inf"
    offset = chance.choice([0, 0, 0, 1, 5, 16, 17, 40, size])
    return chance.choice(
        [
            ("ZRANGE", "z", str(first), str(first + wanted - 1)),
            ("ZRANGE", "z", "0", str(wanted - 1)),
            ("ZRANGEBYSCORE", "z", low_text, high, "LIMIT", str(offset), str(wanted)),
            ("ZRANGE", "z", low_text, high, "BYSCORE", "LIMIT", str(offset), str(wanted)),
        ]
    )


def _change(chance: random.Random, ranges: Ranges, size: int, score_max: int) -> None:
    """Any change, of which the part in C does some, and some not."""
    member, score = f"m{chance.randrange(size)}", str(chance.randrange(score_max))
    commit = chance.random() < 0.7
    several = [f"m{chance.randrange(size)}" for _ in range(chance.choice([2, 3, 30]))]
    kind = chance.choice(
        ["add", "add", "new", "remove", "grow", "long", "empty", "many", "gone", *["rare"] * (chance.random() < 0.1)]
    )
    if kind == "add":
        ranges.change("ZADD", "z", score, member, commit=commit)
    elif kind == "new":
        ranges.change("ZADD", "z", score, f"new{chance.randrange(10**6)}" + "x" * chance.randrange(40), commit=commit)
    elif kind == "remove":
        ranges.change("ZREM", "z", member, commit=commit)
    elif kind == "grow":
        ranges.change("ZINCRBY", "z", str(chance.randrange(1, 3)), member, commit=commit)
    elif kind == "long":
        if chance.random() < 0.1:
            ranges.change("ZADD", "z", score, "y" * chance.choice([64, 65, 300]), commit=commit)
        else:
            ranges.change("ZREM", "z", "y" * chance.choice([64, 65, 300]), commit=commit)
    elif kind == "empty":
        ranges.change("ZADD", "z", score, "", commit=commit)
    elif kind == "many":
        ranges.change(
            "ZADD", "z", *(word for each in several for word in (str(chance.randrange(score_max)), each)), commit=commit
        )
    elif kind == "gone":
        ranges.change("ZREM", "z", *several, commit=commit)
    else:
        _pass(chance, ranges, size, score_max)


def _pass(chance: random.Random, ranges: Ranges, size: int, score_max: int) -> None:
    """What happens seldom: the set ends and begins anew, a batch is thrown away, memory is short."""
    kind = chance.choice(["anew", "rollback", "forget", "short", "range"])
    if kind == "anew":
        ranges.change("DEL", "z", commit=chance.random() < 0.5)
        ranges.change("ZADD", "z", *_filling(size, score_max, chance.choice(["m", "other"])))
    elif kind == "rollback":
        ranges.rollback()
    elif kind == "range":
        ranges.change("ZREMRANGEBYRANK", "z", "20", "25", commit=chance.random() < 0.5)
    elif kind == "forget":
        ranges.holders.scored = ranges.holders.scored_max + 1
    else:
        ranges.holders.bytes_max = chance.choice([0, 20_000, 60_000, 10**7])


def _filling(size: int, score_max: int, word: str) -> list[str]:
    return [part for n in range(size) for part in (str(n * 7 % score_max), f"{word}{n}")]


def _run(seed: int, size: int, score_max: int, steps: int) -> tuple[int, int]:
    """How many questions between changes were answered without a read, and how many blocks had members at most."""
    chance = random.Random(seed)
    ranges = Ranges()
    ranges.change("ZADD", "z", *_filling(size, score_max, "m"))
    unread = most = 0
    for _ in range(steps):
        for _ in range(chance.choice([1, 4, 20])):
            asked = _range_of(chance, size, score_max)
            for _ in range(chance.choice([1, 1, 3])):
                ranges.read.clear()
                unread += ranges.ask(*asked) and not ranges.read
        most = max(most, ranges.check())
        _change(chance, ranges, size, score_max)
        ranges.check()
    return unread, most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("score_max", [900, 12])
def test_ranges_are_those_of_a_model(seed: int, score_max: int) -> None:
    """By rank and score, over blocks, with equal scores, behind what C or Python has changed, committed or not."""
    unread, most = _run(seed, 900, score_max, 80)

    assert unread > 50
    assert most > 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("score_max", [60, 4])
def test_ranges_over_small_blocks(monkeypatch: pytest.MonkeyPatch, seed: int, score_max: int) -> None:
    """Which are split and joined all the time, and their groups, too."""
    _small(monkeypatch)

    unread, most = _run(seed, 60, score_max, 150)
    assert unread > 50
    assert most > 3


def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("PLAIN_SIZE_MAX", 4), ("BLOCK_MAX", 8), ("GROUP_MAX", 16)):
        monkeypatch.setattr(rank_counts, name, limit)


@pytest.mark.parametrize("name", ["drop_members", "forget"])
def test_stale_members_are_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Those that outlive a change of their block, or are counted when they have gone."""
    _small(monkeypatch)
    real = RankHolders.forget

    def other(holders: RankHolders, *_: Any) -> None:
        if name == "forget":
            taken = holders.member_bytes
            real(holders)
            holders.member_bytes = taken

    monkeypatch.setattr(RankHolders, name, other)

    with pytest.raises(AssertionError):
        _run_all()


@pytest.mark.parametrize("name", ["forget_members", "cut_members"])
def test_members_that_take_too_much_are_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Or that stay where others are asked for."""
    monkeypatch.setattr(RankHolders, name, lambda *_: None)

    with pytest.raises(AssertionError):
        test_members_have_what_others_leave()


def _run_all() -> None:
    for seed in range(4):
        _run(seed, 60, 20, 150)


def _grown(words: str = "m", count: int = 1000) -> Ranges:
    ranges = Ranges()
    ranges.change("ZADD", "z", *(part for n in range(count) for part in (str(n), f"{words}{n}")))
    return ranges


def test_members_are_read_at_the_second_question() -> None:
    """A first one reads what it returns; the next one the block; from then on nothing is read, whatever C changes."""
    ranges = _grown()
    words = "ZRANGEBYSCORE", "z", "300", "+inf", "LIMIT", "0", "3"
    ranges.ask_until_held("ZRANGE", "z", "500", "509")
    ranges.read.clear()

    assert ranges.ask(*words)
    assert [3] == ranges.read
    assert ranges.ask(*words)
    assert [3, 67] == ranges.read
    for change in (
        ["ZADD", "z", "301", "new"],
        ["ZREM", "z", "m300"],
        ["ZINCRBY", "z", "1", "m301"],
        ["ZADD", "z", "9", "m302"],
    ):
        ranges.change(*change, commit=False)
        assert ranges.ask(*words)
        assert ranges.ask("ZRANGE", "z", "500", "509")
    assert [3, 67] == ranges.read


def test_a_block_that_has_room_for_no_more_is_packed_anew() -> None:
    """Members come and go again and again, and what they take stays within what is counted."""
    ranges = _grown()
    ranges.ask_until_held("ZRANGE", "z", "500", "509")
    taken = ranges.holders.member_bytes
    for n in range(400):
        ranges.change("ZADD", "z", "505.5", f"new{n % 7}{'x' * (n % 40)}")
        ranges.change("ZREM", "z", f"new{n % 7}{'x' * (n % 40)}")
        assert ranges.ask("ZRANGE", "z", "500", "509")
        ranges.check()
    assert taken < ranges.holders.member_bytes < 2 * taken
    assert ranges.machine.held.rank_bytes == ranges.holders.bytes


@pytest.mark.parametrize("size", [64, 65])
def test_long_members_stay_out(size: int) -> None:
    """With all of their block, which is not read for them again and again; until they have gone."""
    ranges = _grown()
    ranges.change("ZADD", "z", "505", "y" * size)
    asked = "ZRANGE", "z", "500", "509"
    for _ in range(4):
        ranges.read.clear()
        ranges.ask(*asked)
    assert ([10] if size > 64 else []) == [most for most in ranges.read if most < 20]
    ranges.change("ZREM", "z", "y" * size)
    ranges.ask_until_held(*asked)
    ranges.change("ZADD", "z", "505", "y" * size)
    assert ranges.ask(*asked)


def test_members_have_what_others_leave() -> None:
    """Up to what rank counts may take; and where they had no room for long, others have their turn."""
    ranges = _grown(count=4000)
    holders = ranges.holders
    for member in range(0, 4000, 50):
        ranges.machine.read(b"ZRANK", [b"z", b"m%d" % member])
    room = holders.bytes
    for more in range(30_000, 32_000, 200):
        holders.forget_members()
        holders.bytes_max = room + more
        for first in range(0, 4000, 50):
            for _ in range(3):
                ranges.ask("ZRANGE", "z", str(first), str(first + 5))
            assert holders.bytes <= holders.bytes_max
    assert holders.member_bytes > 10_000
    for _ in range(100):
        ranges.ask("ZRANGE", "z", "3900", "3905")
    ranges.ask_until_held("ZRANGE", "z", "3900", "3905")
    holders.bytes_max -= 25_000
    ranges.change("ZADD", "z", "1", "m1")
    assert holders.bytes <= holders.bytes_max


def test_no_more_scores_are_held_than_may_be() -> None:
    """They are read with members, where there is room for both."""
    ranges = _grown(count=4000)
    ranges.machine.read(b"ZRANK", [b"z", b"m1"])
    ranges.holders.scored_max = ranges.holders.scored + 3
    for score in range(0, 4000, 50):
        for _ in range(3):
            ranges.ask("ZRANGEBYSCORE", "z", str(score), "+inf", "LIMIT", "0", "5")
        assert ranges.holders.scored <= ranges.holders.scored_max
    taken = ranges.holders.member_bytes
    assert taken > 2000
    ranges.machine.read(b"ZRANK", [b"z", b"m2000"])
    ranges.holders.scored_max = ranges.holders.scored
    ranges.ask_until_held("ZRANGE", "z", "2000", "2000")
    assert ranges.holders.member_bytes > taken


def test_members_have_half_of_what_is_given() -> None:
    """Together with counts and scores, as these do."""
    for given, bytes_max in ((100_000, 50_000), (10_000_000, 5_000_000)):
        machine = Machine(CountingStore(), HOME, key_cache_bytes=given)
        assert bytes_max == machine._tx._families.rank_holders.bytes_max


class _LosingStore(CountingStore):
    """A store that ends early, gives other keys, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self.is_away = self.is_other = False

    def keys(self, column_family: str, start: bytes, end: bytes, most: int) -> list[bytes]:
        """The keys, less `lost` of them, or in another order."""
        if self.is_away:
            raise OSError("the disk is away")
        found = super().keys(column_family, start, end, most)
        if self.is_other:
            return found[1:] + found[:1]
        return found[: len(found) - self.lost]


def test_what_is_not_read_whole_is_not_held() -> None:
    """Where a store ends at damage, has other scores than are held, or fails."""
    store = _LosingStore()
    with running(natively=True):
        machine = Machine(store, HOME)
    machine._tx._families.rank_holders.bytes_max = 10**6
    some: list[Any] = [word for n in range(600) for word in (b"%d" % n, b"m%d" % n)]
    machine.apply([(0, 1, b"ZADD", [b"z", *some], 0, None, None)], 0)
    machine.commit(FINGERPRINT)
    asked = [b"ZRANGE", b"z", b"300", b"302"]
    run = reader_of(machine)
    machine.read(asked[0], asked[1:])
    run(READS[asked[0]], [asked], 0, 0, False, [])
    store.lost = 1
    assert 0 == run(READS[asked[0]], [asked], 0, 0, False, [])[0]
    store.is_other = True
    run(READS[asked[0]], [asked], 0, 0, False, [])
    store.is_away, store.is_other = True, False
    assert 0 == run(READS[asked[0]], [asked], 0, 0, False, [])[0]
    assert 0 == machine._tx._families.rank_holders.member_bytes
    store.is_away, store.lost = False, 0
    assert 1 == run(READS[asked[0]], [asked], 0, 0, False, [])[0]
    assert 0 < machine._tx._families.rank_holders.member_bytes
    store.is_away = True
    parts: list[bytes] = []
    assert 1 == run(READS[asked[0]], [asked], 0, 0, False, parts)[0]
    assert [b"*3\r\n$4\r\nm300\r\n$4\r\nm301\r\n$4\r\nm302\r\n"] == parts


def test_overlay_counts_members() -> None:
    """What they take leaves the less for keys and elements."""
    ranges = _grown()
    before = ranges.machine.held.rank_bytes
    ranges.ask_until_held("ZRANGE", "z", "500", "509")
    assert isinstance(ranges.machine._tx._overlay, Overlay)
    assert ranges.machine.held.rank_bytes > before + 1000
