"""Places, counts and ranges of a large sorted set, beside a plain model, whatever the machine has gone through."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.apply.machine import Machine
from engine.batch.ranks import rank_counts, rank_scores
from engine.batch.ranks.rank_records import RankCounts, Stretches
from engine.batch.ranks.rank_scores import SCORE_BYTES, Walk
from engine.commands.registry import find
from engine.errors import CorruptionError, PartitionStoppedError
from engine.layouts.layout import Form, Kind
from engine.store.memory import MemoryStore
from engine.types.zset import zset_ranges
from engine.values.encoding import pack_score, pack_u64
from slotlog.shared.errors import InvariantError
from tests.consistency import problems
from tests.engine.batch.ranks.noted_store import NotedStore
from tests.engine.harness import FAMILIES, FINGERPRINT, HOME, apply, event, send
from tests.layouts import layout_of

SCORES = st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.5, -1.0, float("inf"), float("-inf")]) | st.floats(-9, 9)
MEMBERS = st.integers(0, 40).map("m{}".format)
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(MEMBERS, SCORES, min_size=1, max_size=12)),
    st.tuples(st.just("move"), MEMBERS, st.lists(SCORES, min_size=2, max_size=3)),
    st.tuples(st.just("remove"), st.lists(MEMBERS, min_size=1, max_size=5)),
    st.tuples(st.just("pop"), st.integers(1, 6)),
)
QUESTIONS = st.one_of(
    st.tuples(st.just("rank"), MEMBERS),
    st.tuples(st.just("count"), SCORES, SCORES),
    st.tuples(st.just("range"), st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("limit"), SCORES, st.integers(0, 20)),
)
MOMENTS = st.one_of(
    st.sampled_from([("commit",), ("rollback",), ("forget",), ("restart",)]),
    st.tuples(st.just("abandon"), QUESTIONS, st.integers(0, 12)),
)
STEPS = st.lists(st.one_of(CHANGES, QUESTIONS, QUESTIONS, MOMENTS), max_size=40)


class _AbandonedError(Exception):
    """A read was suspended and never resumed."""


class _Store(MemoryStore):
    """A store in memory of which a scan can be left in the middle."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.left: int | None = None

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of the range, the first `left` of all scans if that is set."""
        for record in super().scan(column_family, start, end, reverse=reverse):
            if self.left is not None:
                if self.left == 0:
                    raise _AbandonedError
                self.left -= 1
            yield record


class _Run:
    """A machine, and the sorted set "z" as it should be: as it is, and as it was at the last commit."""

    def __init__(self) -> None:
        self.store = _Store()
        self.machine = Machine(self.store, HOME)
        self.members: dict[bytes, float] = {}
        self.committed: dict[bytes, float] = {}

    def take(self, step: tuple[Any, ...]) -> None:
        """Do one step. Questions are compared with the model."""
        kind, *args = step
        if kind in {"rank", "count", "range", "limit"}:
            command, expected = self._question(kind, *args)
            assert (command, expected) == (command, self._ask(command))
        elif kind in {"commit", "rollback", "forget", "restart", "abandon"}:
            self._pass(kind, *args)
        else:
            self._change(kind, *args)

    def _ask(self, command: str) -> Any:
        """The reply of a read, as a server evaluates it, between the records of a batch or behind it."""
        name, *args = command.encode().split(b" ")
        spec = find(name)
        return self.machine.evaluate(spec, args, 0)

    def _change(self, kind: str, *args: Any) -> None:
        members = self.members
        if kind == "add":
            command = "ZADD z " + " ".join(f"{score} {member}" for member, score in args[0].items())
            members.update((member.encode(), score) for member, score in args[0].items())
        elif kind == "move":  # several times in one command: what came may go again
            member, scores = args
            command = "ZADD z " + " ".join(f"{score} {member}" for score in scores)
            members[member.encode()] = scores[-1]
        elif kind == "remove":
            command = "ZREM z " + " ".join(args[0])
            for member in args[0]:
                members.pop(member.encode(), None)
        else:
            command = f"ZPOPMIN z {args[0]}"
            for _, member in self._ordered()[: args[0]]:
                del members[member]
        apply(self.machine, event(self.machine.next_offset, command))

    def _pass(self, kind: str, *args: Any) -> None:
        machine = self.machine
        if kind == "commit":
            machine.commit(FINGERPRINT)
            self.committed = dict(self.members)
            assert [] == problems(self.store)
            return
        if kind == "forget":  # of everything that is held in memory, as when there is too much
            machine._tx._families.rank_holders.scored = rank_counts.SCORED_MAX + 1
            return
        if kind == "abandon":
            command, _ = self._question(*args[0])
            self.store.left = args[1]
            try:
                self._ask(command)
            except _AbandonedError:
                pass
            else:
                return
            finally:
                self.store.left = None
        machine.rollback()  # as `Gate.abandon` does
        self.members = dict(self.committed)
        if kind == "restart":
            self.machine = Machine(self.store, HOME)

    def _question(self, kind: str, *args: Any) -> tuple[str, object]:
        ordered = self._ordered()
        if kind == "rank":
            names = [member.decode() for _, member in ordered]
            return f"ZRANK z {args[0]}", names.index(args[0]) if args[0] in names else None
        if kind == "count":
            low, high = args
            return f"ZCOUNT z {low} ({high}", sum(low <= score < high for score, _ in ordered)
        if kind == "range":
            first, last = args
            return f"ZRANGE z {first} {last}", [member for _, member in ordered[first : last + 1]]
        low, offset = args
        found = [member for score, member in ordered if score >= low][offset : offset + 3]
        return f"ZRANGEBYSCORE z {low} +inf LIMIT {offset} 3", found

    def _ordered(self) -> list[tuple[float, bytes]]:
        return sorted((score + 0.0, member) for member, score in self.members.items())


def _run(steps: list[tuple[Any, ...]]) -> None:
    """Take the steps with limits that are so low that a few members make many blocks, and then a commit."""
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in (("PLAIN_SIZE_MAX", 4), ("BLOCK_MAX", 4), ("GROUP_MAX", 8)):
            patch.setattr(rank_counts, name, limit)
        patch.setattr(zset_ranges, "_WALKED_MAX", 0)
        run = _Run()
        for step in [*steps, ("commit",)]:
            run.take(step)


@given(STEPS)
def test_places_are_those_of_a_model(steps: list[tuple[Any, ...]]) -> None:
    """Ranks, counts and ranges are right within a batch, behind it, behind a rollback, a restart, an abandoned read."""
    _run(steps)


def _of_fixed_steps() -> None:
    """Members that come to blocks which are held, leave them, and stay among equal scores; one is split, one joined."""
    members = {f"m{n:02}": float(n // 2) for n in range(24)}
    asked = [("rank", f"m{n:02}") for n in range(24)] + [("count", 0.0, float(n)) for n in range(12)]
    crowd = {f"m{n}": 4 + n / 100 for n in range(60, 67)}
    more = [
        ("add", crowd),
        ("add", {"m50": 3.2}),
        ("move", "m05", [9.5, 2.0, 7.5]),
        ("remove", ["m11"]),
        ("add", {"m03": 1.5}),
        ("remove", ["m22", "m23"]),
    ]
    _run([("add", members), ("commit",), *asked, *(step for change in more for step in (change, *asked))])


def test_fixed_steps() -> None:
    """Without a fault they show none."""
    _of_fixed_steps()


def _forgetting_leavers(held: bytes, score_key: bytes, change: int) -> bytes:
    return MOVED(held, score_key, change) if change > 0 else held


def _moving_nobody(held: bytes, _: bytes, change: int) -> bytes:
    """The length is right, and no score is: as if each that goes stayed in the place of the one that comes."""
    return held + held[-8:] if change > 0 else held[: len(held) + 8 * change]


def _holding_the_lower_half_twice(ranks: RankCounts, blocks: Stretches, first: int, end: int, scores: bytes) -> None:
    HOLD(ranks, blocks, first, end, (scores[: blocks.counts[first] * SCORE_BYTES] * 2)[: len(scores)])


MOVED = rank_scores.moved
HOLD = rank_scores.hold


@pytest.mark.form(Form.RANK_COUNTS)
@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (rank_counts, "moved", lambda held, *_: held),
        (rank_counts, "moved", _forgetting_leavers),
        (rank_counts, "moved", _moving_nobody),
        (rank_scores, "forget", lambda *_: None),
        (rank_scores, "hold", _holding_the_lower_half_twice),
    ],
)
def test_stale_scores_are_found(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, fault: Any) -> None:
    """Scores in memory that miss a change, or outlive their block, give a wrong place or are too many or too few."""
    monkeypatch.setattr(module, name, fault)

    with pytest.raises((AssertionError, InvariantError, PartitionStoppedError, CorruptionError)):
        _of_fixed_steps()


@pytest.mark.form(Form.RANK_COUNTS)
def test_a_place_that_was_asked_for_is_not_walked_to_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of members with different scores the second question reads no score record, also after additions to the block."""
    walked: list[bytes] = []
    place = rank_counts.place

    def noted(ranks: RankCounts, score_key: bytes, walk: Walk, *, is_there: bool) -> int:
        def counting(start: bytes, end: bytes, *, count: int = 0) -> Iterator[bytes]:
            for found in walk(start, end, count=count):
                walked.append(found)
                yield found

        return place(ranks, score_key, counting, is_there=is_there)

    monkeypatch.setattr(rank_counts, "place", noted)
    machine = Machine(_Store(), HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(600)))
    assert [300] == send(machine, "ZRANK z m300")
    walked.clear()

    assert [300, 1, 301, 1, 300, 599] == send(
        machine, "ZRANK z m300", "ZADD z 299.5 new", "ZRANK z m300", "ZREM z new", "ZRANK z m300", "ZCOUNT z 1 +inf"
    )
    assert len(walked) < 300  # ZCOUNT has read its own two blocks
    walked.clear()
    assert [300, 599] == send(machine, "ZRANK z m300", "ZCOUNT z 1 +inf")
    assert [] == walked


@pytest.mark.form(Form.RANK_COUNTS)
def test_a_block_is_read_at_once() -> None:
    """The first question in a block reads its score keys by one call, and crosses nothing that pops have deleted."""
    store = NotedStore()
    machine = Machine(store, HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n:04}" for n in range(600)))
    send(machine, "ZPOPMIN z 10")
    store.scans = 0
    store.starts.clear()

    assert [1] == send(machine, "ZRANK z m0011")
    assert (1, 0) == (len(store.starts), store.scans)
    assert store.starts[0].endswith(pack_score(9.0) + b"m0009\0")


@pytest.mark.form(Form.RANK_COUNTS)
def test_a_block_that_is_read_in_part_is_read_again() -> None:
    """Where the quick way gives fewer score keys than are counted, the one that tells damage is asked."""
    store = NotedStore()
    machine = Machine(store, HOME)
    send(machine, "ZADD z " + " ".join(f"{n} m{n}" for n in range(600)))
    store.scans, store.lost = 0, 1

    assert [300] == send(machine, "ZRANK z m300")
    assert 1 == store.scans


@pytest.mark.form(Form.RANK_COUNTS)
@pytest.mark.parametrize("scored_max", [rank_counts.SCORED_MAX, 24])
def test_blocks_are_read_together_where_a_set_fits(monkeypatch: pytest.MonkeyPatch, scored_max: int) -> None:
    """Once many blocks of a set were asked for, those around one are read with it, if scores of all may be held."""
    monkeypatch.setattr(rank_counts, "SCORED_MAX", scored_max)
    store = NotedStore()
    machine = Machine(store, HOME)
    for first in range(0, 6000, 1000):
        send(machine, "ZADD z " + " ".join(f"{n} m{n:04}" for n in range(first, first + 1000)))
    store.starts.clear()
    asked = [number * 2503 % 6000 for number in range(300)]

    assert asked == send(machine, *(f"ZRANK z m{number:04}" for number in asked))
    blocks = sum(1 for _ in store.scan(layout_of().families[Kind.RANKS], b"", None))
    assert blocks > 64
    assert (len(store.starts) < blocks * 2 // 3) is (scored_max > 24)
    held = machine._tx._families.rank_holders
    assert held.scored == sum(each.scores for each in held.sets) <= scored_max + rank_counts.AHEAD_BLOCKS
    send(machine, "ZADD z 2500.5 new", "ZREM z m1000")
    changed = [number + (number > 2500) - (number > 1000) for number in asked if number != 1000]
    assert changed == send(machine, *(f"ZRANK z m{number:04}" for number in asked if number != 1000))


@pytest.mark.parametrize("scores", [(), (4, 6), (6,), (4,)])
def test_a_score_that_is_not_there_cannot_leave(scores: tuple[int, ...]) -> None:
    """It is neither taken for another one, nor looked for in a block that has none."""
    held = array("Q", scores).tobytes()

    with pytest.raises(InvariantError, match="no such score"):
        rank_scores.moved(held, pack_u64(5) + b"member", -1)
