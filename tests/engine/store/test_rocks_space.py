"""Deleted data leaves the disk in a thread that nobody waits for, and scans do not cross it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
import rocksdict as rd  # noqa: TID251 - its statistics and its limit of rate, which the store does not use
from stamina import retry_context

from engine.apply.machine import Machine
from engine.cleaning.reclaim import Reclaimer
from engine.errors import CorruptionError, StoreBusyError, StoreFullError
from engine.layouts.layout import Form
from engine.store import rocks
from engine.store.failures import damaged, open_error
from engine.store.options import SharedMemory, database_options
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, GRAVEYARD_CF, SHARED_CFS, Changes
from engine.tables.compaction_notes import DeletedRange, delete_range
from tests.engine.harness import HOME, NOW_MS, family
from tests.engine.store.families import FAMILIES
from tests.layouts import column_families

WAIT_SECONDS = 30.0
MIB = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test lies."""
    return tmp_path / "0"


def wait_for(condition: Callable[[], object]) -> bool:
    """Whether it comes true in time."""
    deadline = monotonic() + WAIT_SECONDS
    while not condition():
        if monotonic() > deadline:
            return False
        sleep(0.01)
    return True


def patiently(write: Callable[[], object]) -> None:
    """Write again where RocksDB is behind with its flushes: it refuses before anything is written."""
    for attempt in retry_context(StoreBusyError, attempts=None, timeout=WAIT_SECONDS, wait_initial=0.01):
        with attempt:
            write()


def write(store: RocksStore, values: dict[bytes, bytes | None], name: str = "data") -> None:
    """Write `values` as one batch."""
    changes = Changes()
    changes.of(name).update(values)
    patiently(lambda: store.write(changes))


def run(machine: Machine, *commands: list[bytes]) -> None:
    """Apply commands as one batch."""
    start = machine.next_offset
    records = [(start + n, NOW_MS, name, args, 0, None, None) for n, (name, *args) in enumerate(commands)]
    patiently(lambda: machine.apply(records, start))
    patiently(lambda: machine.commit(b"mark"))


def disk_bytes(store: RocksStore) -> int:
    """Tables and write-ahead logs, by the directory itself."""
    size = 0
    for file in store.path.iterdir():
        if file.suffix in {".sst", ".log"}:
            with suppress(FileNotFoundError):  # RocksDB has just removed it
                size += file.stat().st_size
    return size


# ------------------------------------------------------------------------------------------------------ room comes back

ELEMENTS = 20_000
COLLECTIONS: dict[str, Callable[[range], list[bytes]]] = {
    "HSET": lambda part: [word for n in part for word in (b"field:%d" % n, b"value of %d" % (n * 7919))],
    "ZADD": lambda part: [word for n in part for word in (b"%d" % (n * 7919), b"member:%d" % n)],
    "RPUSH": lambda part: [b"element:%d" % (n * 7919) for n in part],
    "SADD": lambda part: [b"member:%d" % (n * 7919) for n in part],
}


def fill(machine: Machine) -> None:
    """What stays."""
    for first in range(0, 10_000, 1000):
        run(machine, *([b"SET", b"key:%d" % n, b"value of %d" % (n * 7919)] for n in range(first, first + 1000)))


def make_large(machine: Machine, command: str) -> None:
    """The key `large`."""
    if command == "SETRANGE":
        draws = Random(1)
        for at in range(4):
            run(machine, [b"SETRANGE", b"large", b"%d" % (at * MIB), draws.randbytes(MIB)])
        return
    for first in range(0, ELEMENTS, 1000):
        run(machine, [command.encode(), b"large", *COLLECTIONS[command](range(first, first + 1000))])


@pytest.mark.parametrize("command", [*COLLECTIONS, pytest.param("SETRANGE", marks=pytest.mark.form(Form.FRAGMENTS))])
def test_a_large_collection_gives_its_room_back(tmp_path: Path, command: str) -> None:
    """After DEL, reclaim and compaction, tables and logs are within 10 % of those of a store that never had it."""
    stores = [RocksStore(tmp_path / name, column_families()) for name in ("with", "without")]
    machines = [Machine(store, HOME) for store in stores]
    for store, machine in zip(stores, machines, strict=True):
        fill(machine)
        store.flush_all()
    store, machine = stores[0], machines[0]
    make_large(machine, command)
    store.flush_all()
    large = disk_bytes(store)
    run(machine, [b"DEL", b"large"])
    reclaimer = Reclaimer(machine, store)
    while reclaimer.reclaim(1000).more:
        pass
    for deleted in reclaimer.ranges():
        assert store.compact(*deleted)
        reclaimer.compacted(deleted)
    for each in stores:
        each.flush_all()
    empty = disk_bytes(stores[1])

    assert empty < 0.8 * large
    assert wait_for(lambda: disk_bytes(store) < 1.1 * empty)  # RocksDB deletes files in a thread of its own
    for each in stores:
        each.close()


def test_a_flush_gives_the_room_of_the_expiry_index_back(path: Path) -> None:
    """With FLUSHALL the entries go as a range, which is compacted like those of the keys."""
    store = RocksStore(path, column_families())
    machine = Machine(store, HOME)
    for first in range(0, 10_000, 1000):
        run(machine, *([b"SET", b"key:%d" % n, b"", b"PX", b"%d" % (n + 99)] for n in range(first, first + 1000)))
    store.flush_all()
    full = store.disk_bytes()[EXPIRY_CF]
    run(machine, [b"FLUSHALL"])
    for deleted in Reclaimer(machine, store).ranges():
        assert store.compact(*deleted)

    assert store.disk_bytes()[EXPIRY_CF] < full / 20
    store.close()


def test_a_file_of_tombstones_is_compacted_by_itself(path: Path) -> None:
    """What was deleted one by one goes once its tombstones are flushed; one file of them is enough."""
    store = RocksStore(path, FAMILIES)
    for value in (b"x" * 100, None):
        write(store, {b"%06d" % n: value for n in range(5000)})
        store.flush_all()

    assert wait_for(lambda: store.disk_bytes()["data"] == 0)
    store.close()


def test_few_deletions_are_left_to_the_usual_compactions(path: Path) -> None:
    """A file in which less than half is deleted is not rewritten for it."""
    store = RocksStore(path, FAMILIES)
    write(store, {b"%06d" % n: b"x" * 100 for n in range(5000)})
    store.flush_all()
    write(store, {b"%06d" % n: None if n % 3 == 0 else b"y" for n in range(1000)})
    store.flush_all()

    assert 2 == store.properties()["data"]["num-files-at-level0"]
    store.close()


def test_a_compaction_lets_a_large_log_go(path: Path) -> None:
    """The write-ahead log is one for all: records of other column families keep it until they are flushed, too."""
    store = RocksStore(path, FAMILIES)
    for first in range(0, 40_000, 1000):
        write(store, {b"%06d" % n: b"x" * 40 for n in range(first, first + 1000)})
    write(store, {b"k": b"v"}, "metadata")
    deleted = DeletedRange("data", b"0", b"1")
    changes = Changes()
    delete_range(changes, deleted)
    store.write(changes)
    assert store.wal_bytes() > MIB

    assert store.compact(*deleted)
    assert wait_for(lambda: store.wal_bytes() == 0)
    assert {b"k": b"v"} == family(store, "metadata")
    store.close()


def test_a_large_range_is_compacted_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the boundaries of files; who says after a piece that it is enough is asked no more, and the rest is there."""
    monkeypatch.setattr("engine.store.compaction_pieces.PIECE_BYTES", 10_000)
    store = RocksStore(path, FAMILIES)
    draws = Random(1)
    for first in range(4):
        write(store, {b"%d%04d" % (first, n): draws.randbytes(100) for n in range(200)})
        store.flush_all()
    before = family(store, "data")
    pieces: list[int] = []

    def enough(piece_bytes: int) -> bool:
        pieces.append(piece_bytes)
        return len(pieces) < 2

    assert not store.compact("data", b"0", b"9", enough)
    assert 2 == len(pieces)
    assert store.compact("data", b"0", b"9")
    assert before == family(store, "data")
    store.close()


# --------------------------------------------------------------------------------------------- beside the main thread


@contextmanager
def compacting_slowly(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RocksStore, list[bool]]]:
    """A store in whose thread a compaction has begun that would take half a minute, and what it will have returned."""
    store = RocksStore(path, FAMILIES)
    draws = Random(1)
    for _ in range(2):
        for first in range(0, 15_000, 1000):
            write(store, {b"%06d" % n: draws.randbytes(1000) for n in range(first, first + 1000)})
        store.flush_all()
    store.close()

    def limited(memory: SharedMemory) -> rd.Options:
        options = database_options(memory)
        options.set_ratelimiter(MIB // 2, 100_000, 10)
        return options

    monkeypatch.setattr(rocks, "database_options", limited)
    store = RocksStore(path, FAMILIES)
    monkeypatch.setattr(rocks, "database_options", database_options)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(store.compact("data", b"0", b"9")))
    thread.start()
    assert wait_for(lambda: store.number_of("num-running-compactions"))
    yield store, done
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_closing_breaks_a_compaction_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` raises nothing and waits for nothing; the compaction says that it was not done; nothing is lost.

    Until its thread has let go, opening fails as for any directory that is open, so whoever opens tries again.
    """
    with compacting_slowly(path, monkeypatch) as (store, done):
        write(store, {b"last": b"1"})
        store.close()
    assert [False] == done

    store = RocksStore(path, FAMILIES)
    assert 15_001 == len(family(store, "data"))
    assert b"1" == store.getter("data")(b"last")
    store.close()


def test_writes_and_reads_go_on_beside_a_compaction(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread writes, reads, scans and asks for sizes while another compacts."""
    with compacting_slowly(path, monkeypatch) as (store, done):
        for n in range(100):
            write(store, {b"new:%d" % n: b"1"})
            assert b"1" == store.getter("data")(b"new:%d" % n)
        assert 100 == len(list(store.scan("data", b"new:", b"new;")))
        assert {*SHARED_CFS, *FAMILIES} == store.properties().keys()
        assert [] == done
        store.close()


def test_a_closed_store_compacts_nothing(path: Path) -> None:
    """A thread that comes too late is told so, and raises nothing; a flush that comes too late is none to do."""
    store = RocksStore(path, FAMILIES)
    store.close()

    assert not store.compact("data", b"a", b"b")
    store.flush_all()
    assert not store.compact("metadata", b"a", b"b")


# ---------------------------------------------------------------------------------------------------------- tombstones


def test_scans_cross_no_tombstones_behind_their_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where much was deleted a scan ends at its end; RocksDB's own statistics tell what it skipped."""
    options = database_options(SharedMemory())
    options.enable_statistics()
    monkeypatch.setattr("engine.store.rocks.database_options", lambda _: options)
    store = RocksStore(path, FAMILIES)
    for value in (b"", None):
        write(store, {b"b%05d" % n: value for n in range(5000)})
    write(store, {b"a": b"1"})
    found = list(store.scan("data", b"a", b"b"))
    store.close()
    skipped = re.search(r"rocksdb\.number\.iter\.skip COUNT : (\d+)", options.get_statistics() or "")

    assert [(b"a", b"1")] == found
    assert skipped is not None
    assert int(skipped[1]) < 20


def test_the_graveyard_keeps_few_tombstones_in_memory(path: Path) -> None:
    """Its memtable is small: a walk through one millisecond in which very many died crosses no more than it holds."""
    store = RocksStore(path, FAMILIES)
    for first in range(0, 40_000, 1000):
        for value in (b"x" * 50, None):
            write(store, {b"%06d" % n: value for n in range(first, first + 1000)}, GRAVEYARD_CF)

    assert wait_for(lambda: store.properties()[GRAVEYARD_CF]["cur-size-all-mem-tables"] < 4 * MIB)
    store.close()


def test_a_write_after_a_failed_compaction_names_the_damage(path: Path) -> None:
    """A compaction that met a damaged block ends all writes: they say so, and what to do, and it is counted."""
    store = RocksStore(path, FAMILIES)
    for number in range(2):
        changes = Changes()
        changes.of("data").update({b"%06d" % n: b"%d" % number * 100 for n in range(number, 5000, 2)})
        store.write(changes)
        store.flush_all()
    for table in path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        if len(content) > MIB // 100:
            content[5000] ^= 0xFF
            table.write_bytes(content)
    with suppress(Exception):
        store._families["data"].compact_range(None, None)

    assert wait_for(lambda: store.number_of("background-errors"))
    with pytest.raises(CorruptionError, match="rebuild it with `slotlog replay --swap`"):
        store.write(changes)
    with suppress(OSError):  # it says that a background job has failed
        store.close()


def test_damage_says_once_what_to_do() -> None:
    """Also where it is passed on through another layer, with what was wrong."""
    error = damaged(damaged(Exception("Corruption: block 7")))

    assert "the state is damaged (Corruption: block 7); rebuild it with `slotlog replay --swap`" == str(error)


def test_a_write_without_room_is_told_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By RocksDB's words, which name the file, and say so again at each write until the database is opened anew."""
    text = f"IO error: No space left on device: While appending to file: {tmp_path}/000004.log: No space left on device"

    class Full:
        def write(self, *_: object) -> None:
            raise Exception(text)  # noqa: TRY002 - as rocksdict

    store = RocksStore(tmp_path, ["data"])
    database = vars(store)["_db"]
    monkeypatch.setattr(store, "_db", Full())
    with pytest.raises(StoreFullError, match=r"cannot be written: .* appending to file: …/000004\.log: No space left"):
        write(store, {b"k": b"v"})
    monkeypatch.setattr(store, "_db", database)
    store.close()


def test_an_opening_without_room_is_told_from_others() -> None:
    """What else keeps a database from opening is no matter of room."""
    full = "IO error: No space left on device: While appending to file: /s/0/000008.sst: No space left on device"
    gone = "IO error: Input/output error: While appending to file: /s/0/000008.sst"

    error = open_error("/s/0", Exception(full))
    assert isinstance(error, StoreFullError)
    assert "/s/0 cannot be opened, as its disk is full: make room (IO error: No space left on device: " in str(error)
    assert not isinstance(open_error("/s/0", Exception(gone)), StoreFullError)
    of_rocksdict = "No space left on device (os error 28)"  # where it writes its own file
    assert isinstance(open_error("/s/0", Exception(of_rocksdict)), StoreFullError)
