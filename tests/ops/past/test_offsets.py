"""The index of offsets finds all that decides what a key holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.store.memory import MemoryStore
from ops.config import Settings, load_settings
from ops.past.history import History, Touch, value_of
from ops.past.narrow import narrowed
from ops.past.offsets import offset_index
from ops.past.offsets.footprint import Footprint, footprint_of, token_of
from ops.past.offsets.index_file import IndexFile
from ops.past.walk import Past, Step, apply_all, walked
from ops.state.rebuilding.replay_plan import Until
from slotlog.events import decode, encode
from tests.differential.vocabulary import ALL_KEYS
from tests.layouts import column_families
from tests.ops.past.logs import HOME, START_MS, entry, random_entries, write_log
from tests.ops.verbs import succeed

BLOCK = 64


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few offsets, so that a short log has many."""
    monkeypatch.setattr(offset_index, "BLOCK_OFFSETS", BLOCK)
    monkeypatch.setattr(offset_index, "_KEPT_MIN", 1)


def narrow(settings: Settings, keys: Sequence[bytes], offset: int | None = None, step: Step = apply_all) -> Past | None:
    """The state of some keys."""
    return asyncio.run(narrowed(settings, 0, Until(offset=offset), step, keys))


def noting(taken: list[int]) -> Step:
    """As `apply_all`; the offsets are noted."""

    def step(machine: Machine, records: Sequence[Any], _raw: Sequence[Any] = ()) -> None:
        taken.extend(record[0] for record in records)
        apply_all(machine, records)

    return step


def told_of(walk: Callable[[Step], Any], key: bytes) -> list[Touch]:
    """The history of a key that some walk shows."""
    told: list[Touch] = []
    walk(History(0, key, told.append, values=True).step)
    return told


@pytest.mark.parametrize("seed", range(3))
def test_some_records_tell_as_much_as_all(tmp_path: Path, seed: int) -> None:
    """Of random logs, each key has at random offsets the value and the clock that all records before make.

    Its history is the same as well: outcomes, replies, values.
    """
    entries = [each for each in random_entries(seed, commands=500) if not footprint_of(decode(0, 0, each.value)).opaque]
    settings = load_settings(data=write_log(tmp_path / "data", entries))
    random, fewer = Random(seed), 0
    ends = sorted(random.sample(range(1, len(entries)), 6))
    machine = Machine(MemoryStore(column_families()), HOME)
    for begin, end in zip([0, *ends], ends, strict=False):
        apply_all(machine, [decode(at, entries[at].time_ms or 0, entries[at].value) for at in range(begin, end)])
        machine.commit(None)
        for key in random.sample(ALL_KEYS, 4):
            taken: list[int] = []
            past = narrow(settings, [key], end, noting(taken))
            assert past is not None
            fewer += end - len(taken)
            assert machine.clock_ms == past.machine.clock_ms
            assert value_of(machine, 0, key) == value_of(past.machine, 0, key)

    def walk_all(step: Step) -> None:
        async def walk() -> None:
            async with walked(settings, 0, Until(), step, from_snapshot=False):
                pass

        asyncio.run(walk())

    for key in random.sample(ALL_KEYS, 2):
        few = told_of(lambda step, key=key: narrow(settings, [key], step=step), key)  # type: ignore[misc]
        assert repr(told_of(walk_all, key)) == repr(few)  # two errors of the same text are not equal
    assert fewer > len(entries) // 4


def test_unrelated_events_are_left_out(tmp_path: Path) -> None:
    """Of many keys, those events alone are applied that touch the key, or what it came from."""
    lines = [(number, "SET", [f"k{number % 40}", str(number)]) for number in range(300)]
    lines += [(400, "RENAME", ["k1", "new"]), (401, "INCR", ["k2"])]
    settings = load_settings(data=write_log(tmp_path / "data", lines))
    taken: list[int] = []

    past = narrow(settings, [b"new"], step=noting(taken))

    assert past is not None
    assert [*range(1, 300, 40), 300] == taken
    assert (b"281", 302, START_MS + 401) == (
        value_of(past.machine, 0, b"new").content,
        past.machine.next_offset,
        past.machine.clock_ms,
    )


@pytest.mark.parametrize(
    ("name", "args", "fields", "footprint"),
    [
        ("SET", ["a", "1"], {}, Footprint(frozenset({token_of(b"a")}))),
        ("RENAME", ["a", "b"], {"db": 3}, Footprint(frozenset({token_of(b"a"), token_of(b"b")}))),
        ("EXEC", [["SELECT", "1"], ["DEL", "a"]], {}, Footprint(frozenset({token_of(b"a")}))),
        ("EXEC", [["DEL", "a"], ["FLUSHALL"]], {}, Footprint(frozenset({token_of(b"a")}), everywhere=True)),
        ("SWAPDB", ["0", "1"], {}, Footprint(everywhere=True)),
        ("TICK", [], {}, Footprint()),
        ("EVAL", ["return 1", "1", "a"], {}, Footprint(opaque=True)),
        ("EXEC", [["SET", "a", "1"], ["EVAL", "return 1", "0"]], {}, Footprint(opaque=True)),
        ("SORT", ["a", "BY", "w_*", "STORE", "b"], {}, Footprint(opaque=True)),
        ("SETCLOCK", ["1", "0"], {}, Footprint(opaque=True)),
        ("NOSUCH", ["a"], {}, Footprint()),
    ],
)
def test_footprints(name: str, args: list[Any], fields: dict[str, Any], footprint: Footprint) -> None:
    """Keys of all commands of an event; what reaches everywhere; what nobody knows."""
    assert footprint == footprint_of(decode(0, START_MS, encode(name, args, **fields)))


def test_an_id_and_a_session_are_of_interest_too() -> None:
    """An event with an id is a duplicate of one that touches other keys; a session's watch may end an EXEC."""
    with_id = [footprint_of(decode(0, START_MS, encode("SET", [key, "1"], id="x"))).tokens for key in ("a", "b")]
    session = [
        footprint_of(decode(0, START_MS, encode(name, args, session=bytes(16)))).tokens
        for name, args in (("WATCH", ["a"]), ("EXEC", [["SET", "b", "1"]]))
    ]

    assert [1, 1] == [len(first & second) for first, second in (with_id, session)]


def test_scripts_and_times_that_go_back_need_all_records(tmp_path: Path) -> None:
    """Where nobody knows what matters, nothing is left out."""
    lines = [(0, "SET", ["a", "1"]), (1, "EVAL", ["return redis.call('SET', 'a', '2')", "0"])]
    settings = load_settings(data=write_log(tmp_path / "data", lines))

    assert None is narrow(settings, [b"a"])
    assert None is not narrow(settings, [b"a"], 1)
    assert '"2"\n' == succeed("at", "2", "--data", settings.data, "GET", "a")


@pytest.fixture
def counted(tmp_path: Path) -> Settings:
    """A log of 200 events, with its index."""
    lines = [(number, "INCR", [f"n{number % 4}"]) for number in range(200)]
    settings = load_settings(data=write_log(tmp_path / "data", lines))
    assert value(settings) == b"50"
    return settings


def value(settings: Settings) -> bytes:
    """Of a key."""
    past = narrow(settings, [b"n1"])
    assert past is not None
    return bytes(value_of(past.machine, 0, b"n1").content)


def test_the_file_is_kept_and_goes_on(counted: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole blocks are on the disk; what is there is not read again from the log."""
    file = IndexFile(counted.data / "offsets" / "0")
    assert [(0, 64), (64, 128), (128, 192), (192, 200)] == [(block.begin, block.end) for block in file.blocks]
    file.close()
    begun: list[int] = []
    make = offset_index._content

    def noting(log: Any, partition: int, base: int, begin: int, *rest: int) -> Any:
        begun.append(begin)
        return make(log, partition, base, begin, *rest)

    monkeypatch.setattr(offset_index, "_content", noting)
    assert (b"50", []) == (value(counted), begun)


def test_the_last_block_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New offsets join the last block of the file until it is full, and an earlier end leaves out what it has later."""
    monkeypatch.setattr(offset_index, "_KEPT_MIN", 10)
    lines = [(number, "INCR", [f"n{number % 4}"]) for number in range(200)]
    settings = load_settings(data=write_log(tmp_path / "data", lines))
    ends = [20, 29, 50, 64, 150, 7, 40, 110, 200, 64, 0]
    found = []
    for end in ends:
        past = narrow(settings, [b"n1"], end)
        assert past is not None
        found.append((past.machine.clock_ms, value_of(past.machine, 0, b"n1").content))
    file = IndexFile(settings.data / "offsets" / "0")
    bounds = [(block.begin, block.end) for block in file.blocks]
    file.close()

    assert [(START_MS + end - 1, b"%d" % len(range(1, end, 4))) for end in ends[:-1]] == found[:-1]
    assert (0, None) == found[-1]
    assert [(0, 64), (64, 128), (128, 192), (192, 200)] == bounds


@pytest.mark.parametrize("place", range(3, 1200, 97))
def test_damage_is_found_and_made_anew(counted: Settings, place: int) -> None:
    """A flipped bit anywhere, or a file that ends early: the blocks before are used, the rest is made again."""
    path = counted.data / "offsets" / "0"
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    assert b"50" == value(counted)
    path.write_bytes(bytes(data[:place]))
    assert b"50" == value(counted)
    assert place < len(data)


def test_the_index_of_another_log(counted: Settings, tmp_path: Path) -> None:
    """An index that was made of another log is not used."""
    lines = [(number, "INCR", [f"n{number % 2}"]) for number in range(200)]
    other = load_settings(data=write_log(tmp_path / "other", lines))
    (other.data / "offsets").mkdir()
    (other.data / "offsets" / "0").write_bytes((counted.data / "offsets" / "0").read_bytes())

    assert b"100" == value(other)


def test_too_many_records(counted: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most records matter, a walk through all of them is as good, and is bounded in memory."""
    monkeypatch.setattr("ops.past.offsets.relevant.RECORDS_MAX", 49)
    assert None is narrow(counted, [b"n1"])
    monkeypatch.setattr("ops.past.offsets.relevant.RECORDS_MAX", 50)
    assert None is not narrow(counted, [b"n1"])


def test_a_duplicate_of_an_event_on_another_key(tmp_path: Path) -> None:
    """The outcome of an event may hang on one that touches other keys, by its id."""
    entries = [entry((0, "SET", ["b", "1"]), id="x"), entry((1, "SET", ["a", "1"]), id="x"), entry((2, "INCR", ["c"]))]
    settings = load_settings(data=write_log(tmp_path / "data", entries))
    past = narrow(settings, [b"a"])

    assert past is not None
    assert b"none" == value_of(past.machine, 0, b"a").type
