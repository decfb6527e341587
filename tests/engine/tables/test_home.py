"""A state directory is opened as what it is, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import CorruptionError, StateMismatchError
from engine.store.memory import MemoryStore
from engine.store.store import Changes
from engine.tables.system import RULES, Home, Position, open_position, read_home, skip_changes
from engine.values.encoding import pack_u64
from tests.engine.harness import FINGERPRINT, HOME, NOW_MS, new_store, open_machine, send
from tests.layouts import home_of, layout_name


@pytest.fixture
def store() -> MemoryStore:
    """A store with a state in it."""
    store = new_store()
    send(open_machine(store), "SET a 1", "HSET h f v", "EXPIRE h 10")
    send(open_machine(store), "SET a 1", db=12)
    return store


def plant(store: MemoryStore, name: bytes, value: bytes | None) -> None:
    """Change one entry of the system column family behind everybody's back."""
    changes = Changes()
    changes.of("system")[name] = value
    store.write(changes)


def test_an_empty_store_has_no_home() -> None:
    """Before the first commit a store belongs to nobody and its position is the log's start."""
    store = new_store()

    assert read_home(store) is None
    assert Position() == open_position(store, HOME)
    assert Position() == open_position(store, home_of("other", 3, 8))


def test_the_first_commit_says_whose_state_it_is(store: MemoryStore) -> None:
    """A store says of which topic, partition and layout it is, and how far it has come."""
    assert HOME == read_home(store)
    position = open_position(store, HOME)
    assert (4, NOW_MS, FINGERPRINT) == (position.next_offset, position.clock_ms, position.fingerprint)
    assert {(0, 1): 1, (0, 2): 1, (12, 1): 1} == position.counts


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(HOME, topic="other"), "its topic is topic, not other"),
        (replace(HOME, partition=1), "it is of partition 0, not 1"),
        (replace(HOME, partitions=2), "its topic has 1 partitions, not 2"),
        (
            replace(HOME, layout="other"),
            rf"its layout is {layout_name()}, not other \(`slotlog convert` makes a state of another one\)",
        ),
    ],
    ids=["topic", "partition", "partitions", "layout"],
)
def test_another_home_is_refused(store: MemoryStore, other: Home, said: str) -> None:
    """Each field must fit: a state is never opened as another topic's, partition's, count's or layout's.

    The message names the field that differs, and no other.
    """
    with pytest.raises(StateMismatchError, match=f"^the state is another one: {said}; choose another --data"):
        open_machine(store, other)


@pytest.mark.parametrize("written", [0, 2, 1 << 63])
@pytest.mark.damaging
def test_another_format_is_refused(store: MemoryStore, written: int) -> None:
    """A format that this release does not know is never guessed at."""
    plant(store, b"format", pack_u64(written))
    with pytest.raises(StateMismatchError, match=f"has format {written}, this slotlog knows 1; use the release"):
        open_machine(store)


@pytest.mark.damaging
def test_newer_rules_are_refused(store: MemoryStore) -> None:
    """A state that follows rules which this engine does not know is not opened."""
    plant(store, b"rules", pack_u64(RULES + 1))
    text = f"follows rules {RULES + 1}, this slotlog knows {RULES}; use a newer release"
    with pytest.raises(StateMismatchError, match=text):
        open_machine(store)


@pytest.mark.parametrize("name", [b"topic", b"partition", b"partitions", b"layout"])
@pytest.mark.damaging
def test_half_a_home_is_corrupt(store: MemoryStore, name: bytes) -> None:
    """A state that has a format but does not say what it is, is damaged."""
    plant(store, name, None)
    with pytest.raises(CorruptionError, match="does not say what it is; rebuild it with `slotlog replay --swap`"):
        open_machine(store)


@pytest.mark.parametrize("name", [b"next_offset", b"clock_ms", b"last_version", b"rules"])
@pytest.mark.damaging
def test_a_missing_position_is_corrupt(store: MemoryStore, name: bytes) -> None:
    """A state without one of the numbers of its position is damaged, not at the beginning."""
    plant(store, name, None)
    with pytest.raises(CorruptionError, match=f"has no {name.decode()}; rebuild it"):
        open_machine(store)


@pytest.mark.parametrize("name", [b"format", b"partition", b"next_offset", b"clock_ms", b"count/0/1"])
@pytest.mark.damaging
def test_a_number_of_other_length_is_corrupt(store: MemoryStore, name: bytes) -> None:
    """A number that is not eight bytes long is damage with a name."""
    plant(store, name, b"\0\0\0")
    with pytest.raises(CorruptionError, match="rebuild it with `slotlog replay --swap`"):
        open_machine(store)


def test_skips_are_kept(store: MemoryStore) -> None:
    """Skipped offsets are part of the state, also one recorded before the first commit."""
    store.write(skip_changes(17))
    store.write(skip_changes(4))
    empty = new_store()
    empty.write(skip_changes(0))

    assert ((4, 5), (17, 18)) == open_machine(store).position.skips
    assert ((0, 1),) == open_machine(empty).position.skips


def test_skips_of_several(store: MemoryStore) -> None:
    """A decision about several records is one record of the state, and says of each offset whether it is meant."""
    store.write(skip_changes(4, 7))
    store.write(skip_changes(7))
    store.write(skip_changes(10, 1 << 60))
    skips = open_machine(store).position.skips

    assert ["4-6", "7", f"10-{(1 << 60) - 1}"] == skips.texts()
    assert [3, 7, 8, 8, 9, 1 << 60] == [skips.end_from(offset) for offset in (3, 4, 7, 8, 9, 10)]
    assert frozenset({6, 7, 10, 11}) == skips.within(6, [(6,), (11,)])
    assert frozenset() == skips.within(6, [])


def test_a_file_that_cannot_be_read_is_no_damage(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB raises the same class for all: whoever opens the state says a sentence, and may try again."""

    def unread(_: bytes) -> bytes | None:
        raise Exception("IO error: While pread: Input/output error")  # noqa: TRY002 - as rocksdict does

    monkeypatch.setattr(store, "getter", lambda _: unread)
    with pytest.raises(OSError, match="the state cannot be read: IO error: While pread"):
        open_position(store, HOME)


def test_a_fault_of_ours_stays_what_it_is(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack of calls is what helps then."""
    monkeypatch.setattr(store, "getter", dict[str, int]().__getitem__)
    with pytest.raises(KeyError):
        open_position(store, HOME)
