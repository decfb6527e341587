"""Measures cleaning and the disk space that it gives back: the engine on RocksDB, in this process.

    clean_expiry   a round that removes 1,000 keys which are due, among 10^4 to 10^6 stored keys with a time to live
    clean_orphan   a slice that reclaims a dead hash of 1,000 fields, among 10^4 to 10^6 stored keys
    clean_del      DEL of a collection of 10^6 elements, or of a string of 500 MiB, beside DEL of a small one
    clean_disk     tables and write-ahead log after such a DEL, its reclaim and compaction, beside a store that never
                   had it; both hold 10,000 other keys

The stores of different sizes take turns, so growth is between times of the same moment; figures are medians.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any, Final

from benchmarks.applying.subject import COLUMN_FAMILIES, HOME, open_store
from benchmarks.applying.workloads import SEED, START_MS, VALUE_BYTES
from benchmarks.measure import Seconds, Stopwatch
from engine.apply.machine import Machine, Record
from engine.cleaning.reclaim import Reclaimer
from engine.cleaning.sweep import Sweeper
from engine.store.rocks import RocksStore
from engine.store.store import SHARED_CFS

_MIB: Final = 1024 * 1024
_BATCH: Final = 1000
_FAR_MS: Final = 10**11
_SMALL: Final = 10
_OTHER_KEYS: Final = 10_000
_SETTLE_SECONDS: Final = 0.1
_SETTLE_LOOKS: Final = 5

KINDS: Final[dict[str, tuple[bytes, Callable[[int], tuple[bytes, ...]]]]] = {
    "hash": (b"HSET", lambda n: (b"field:%d" % n, b"value:%d" % n)),
    "zset": (b"ZADD", lambda n: (b"%d" % (n * 7919 % 1_000_003), b"member:%d" % n)),
    "list": (b"RPUSH", lambda n: (b"element:%d" % n,)),
    "set": (b"SADD", lambda n: (b"member:%d" % n,)),
}
"""The command that fills a collection, and its words for one element."""


@dataclass(frozen=True, slots=True)
class CleaningSize:
    """The parameters; each has a small value, for the tests, and a large one.

    Attributes:
        stored: how many keys there are besides.
        due: keys that a round removes, and fields of the hash that a slice reclaims.
        rounds: how often each size has its turn.
        elements: of a collection that is deleted.
        string_bytes: of a string that is deleted.
        deletes: collections of each type.
    """

    stored: tuple[int, ...]
    due: int
    rounds: int
    elements: int
    string_bytes: int
    deletes: int


CLEANING_SMOKE: Final = CleaningSize((50, 100), 20, 2, 1500, 2 * _MIB, 1)
CLEANING_LARGE: Final = CleaningSize((10_000, 100_000, 1_000_000), 1000, 15, 1_000_000, 500 * _MIB, 3)


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """One line of output: its name and figures, and the load of the machine when it ended."""

    name: str
    figures: dict[str, Any]
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))

    def line(self) -> str:
        """The result as JSON."""
        return json.dumps({"name": self.name, **self.figures, "load": self.load})


class _State:
    """A store and its machine, whose clock goes by hand."""

    def __init__(self, path: Path) -> None:
        self.store: RocksStore = open_store(path)
        self.machine = Machine(self.store, HOME)
        self.sweeper = Sweeper(self.machine, self.store)
        self.reclaimer = Reclaimer(self.machine, self.store)
        self.now_ms = max(START_MS, self.machine.clock_ms)

    def send(self, *commands: list[bytes]) -> Seconds:
        """Apply and commit one batch. Returns how long that took.

        Raises:
            RuntimeError: a command was not simply applied.
        """
        start = self.machine.next_offset
        records: list[Record] = [
            (offset, self.now_ms, name, args, 0, None, None) for offset, (name, *args) in enumerate(commands, start)
        ]
        watch = Stopwatch()
        applied = self.machine.apply(records, start)
        self.machine.commit(b"fingerprint")
        seconds = watch.read()
        if applied.rejected or applied.dead_letters:
            raise RuntimeError(f"not applied: {applied.rejections} {applied.dead_letters[:3]}")
        return seconds

    def set_keys(self, prefix: bytes, count: int, ttl_ms: int) -> None:
        """Write keys that die."""
        value, ttl = b"v" * VALUE_BYTES, b"%d" % ttl_ms
        for first in range(0, count, _BATCH):
            numbers = range(first, min(first + _BATCH, count))
            self.send(*([b"SET", prefix + b"%d" % n, value, b"PX", ttl] for n in numbers))

    def fill(self, kind: str, name: bytes, size: int) -> None:
        """Write a collection of so many elements, or a string of so many bytes."""
        if kind == "string":
            draws = Random(SEED)
            for at in range(0, size, _MIB):
                self.send([b"SETRANGE", name, b"%d" % at, draws.randbytes(min(_MIB, size - at))])
            return
        command, words = KINDS[kind]
        for first in range(0, size, _BATCH):
            numbers = range(first, min(first + _BATCH, size))
            self.send([command, name, *(word for n in numbers for word in words(n))])

    def clean(self) -> None:
        """Reclaim and compact everything."""
        while self.reclaimer.reclaim(_BATCH).more:
            pass
        for deleted in self.reclaimer.ranges():
            self.store.compact(*deleted)
            self.reclaimer.compacted(deleted)

    def disk_bytes(self) -> int:
        """Tables and write-ahead logs, once RocksDB's threads are through."""
        self.store.flush_all()
        sizes: list[int] = []
        while len(sizes) < _SETTLE_LOOKS or sizes[-1] != sizes[-_SETTLE_LOOKS]:
            sleep(_SETTLE_SECONDS)
            sizes.append(sum(self.store.disk_bytes().values()) + self.store.wal_bytes())
        return sizes[-1]

    def close(self) -> None:
        """Close the store."""
        self.store.close()


async def run_cleaning(size: CleaningSize) -> AsyncIterator[CleaningResult]:
    """All rows.

    Raises:
        RuntimeError: something was not removed, or too much.
    """
    for result in _growth(size):
        yield result
    for kind in (*KINDS, "string"):
        for result in _deletes(size, kind):
            yield result


def _growth(size: CleaningSize) -> Iterator[CleaningResult]:
    """Rounds of expiry and slices of reclaim in stores of all sizes, in turn."""
    with TemporaryDirectory(prefix="slotlog-bench-") as directory, ExitStack() as stack:
        states = {stored: stack.enter_context(closing(_State(Path(directory) / str(stored)))) for stored in size.stored}
        for stored, state in states.items():
            state.set_keys(b"stored:", stored, _FAR_MS)
            state.store.flush_all()
        jobs: dict[str, Callable[[_State, int], Seconds]] = {"clean_expiry": _expire, "clean_orphan": _reclaim}
        for name, job in jobs.items():
            times: dict[int, list[Seconds]] = {stored: [] for stored in states}
            for turn in range(size.rounds + 1):
                for stored, state in states.items():
                    seconds = job(state, size.due)
                    if turn:  # the first one finds cold caches
                        times[stored].append(seconds)
            smallest = times[size.stored[0]]
            for stored, taken in times.items():
                pairs = list(zip(taken, smallest, strict=True))
                figures = {
                    "ms": round(median(one.wall for one in taken) * 1000, 3),
                    "cpu_ms": round(median(one.cpu for one in taken) * 1000, 3),
                    "growth": round(median(one.wall / least.wall for one, least in pairs), 2),
                    "cpu_growth": round(median(one.cpu / least.cpu for one, least in pairs), 2),
                    "removed": size.due,
                    "rounds": size.rounds,
                }
                yield CleaningResult(f"{name}_{stored}", figures)


def _expire(state: _State, due: int) -> Seconds:
    state.set_keys(b"due:", due, 1)
    state.now_ms += 1000
    state.send([b"TICK"])
    watch = Stopwatch()
    swept = state.sweeper.expire(due)
    seconds = watch.read()
    if len(swept.keys) != due or swept.more:
        raise RuntimeError(f"{len(swept.keys)} keys went, {due} were due")
    return seconds


def _reclaim(state: _State, elements: int) -> Seconds:
    state.fill("hash", b"orphan", elements)
    state.send([b"DEL", b"orphan"])
    state.now_ms += 1000
    state.send([b"TICK"])
    watch = Stopwatch()
    reclaimed = state.reclaimer.reclaim(2 * elements)
    seconds = watch.read()
    if (reclaimed.graves, reclaimed.records, reclaimed.more) != (1, elements, False):
        raise RuntimeError(f"reclaimed {reclaimed} of {elements} elements")
    return seconds


def _deletes(size: CleaningSize, kind: str) -> Iterator[CleaningResult]:
    """DEL of large and small ones in turn, after a restart; and the disk when all of it is reclaimed."""
    large, count = (size.string_bytes, 1) if kind == "string" else (size.elements, size.deletes)
    small = 2 * 128 * 1024 if kind == "string" else _SMALL
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        path = Path(directory)
        with closing(_State(path / "with")) as state, closing(_State(path / "without")) as other:
            for each in (state, other):
                for _ in range(2):  # so that both have them compacted, as one file alone is only moved
                    each.set_keys(b"stored:", _OTHER_KEYS, _FAR_MS)
                    each.store.flush_all()
                for name in (*SHARED_CFS, *COLUMN_FAMILIES):
                    each.store.compact(name, b"", b"\xff" * 9)
            for number in range(count):
                state.fill(kind, b"large:%d" % number, large)
            for number in range(count + 1):
                state.fill(kind, b"small:%d" % number, small)
            before = state.disk_bytes()
        with closing(_State(path / "with")) as state, closing(_State(path / "without")) as other:
            state.send([b"DEL", b"small:%d" % count])  # the first one finds cold caches
            pairs = [
                (state.send([b"DEL", b"large:%d" % number]), state.send([b"DEL", b"small:%d" % number]))
                for number in range(count)
            ]
            watch = Stopwatch()
            state.clean()
            cleaned = watch.read()
            disk, without = state.disk_bytes(), other.disk_bytes()
    figures = {
        "ms": round(median(one.wall for one, _ in pairs) * 1000, 3),
        "small_ms": round(median(least.wall for _, least in pairs) * 1000, 3),
        "ratio": round(median(one.wall / least.wall for one, least in pairs), 2),
        "pairs": count,
    }
    yield CleaningResult(f"clean_del_{kind}_{large}", figures)
    room = {
        "before_bytes": before,
        "bytes": disk,
        "without_bytes": without,
        "ratio": round(disk / without, 3),
        "seconds": round(cleaned.wall, 3),
    }
    yield CleaningResult(f"clean_disk_{kind}_{count * large}", room)
