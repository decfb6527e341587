"""A state and its index may end, be away, or lose their newest batches."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Final

import pytest

from engine.apply.machine import Machine, Record
from engine.cleaning.all import clean_all
from engine.errors import IndexUnavailableError, StateMismatchError
from engine.layouts.index import IndexChanges
from engine.layouts.indexed import IndexedStore
from engine.layouts.layout import Indexing
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import SHARED_CFS, Changes
from tests.consistency import problems
from tests.engine.harness import FAMILIES, FINGERPRINT, NOW_MS, event, feed, new_store, open_machine
from tests.layouts import layout_of
from tests.layouts.held_index import HeldIndex

pytestmark = pytest.mark.layout("camellia-v1")

SEEDS: Final = int(os.environ.get("SLOTLOG_SIMULATION_SEEDS", "60")) // 3
EVENTS: Final = 300
LINES: Final = [
    *("ZADD K S M", "ZADD K S M S M S M", "ZINCRBY K 1 M", "ZINCRBY K -0.5 M", "ZREM K M M", "ZPOPMIN K"),
    *("ZREMRANGEBYRANK K 0 1", "ZUNIONSTORE K 2 K K", "DEL K", "RENAME K K", "COPY K K REPLACE", "FLUSHDB", "SET K v"),
    *("EXPIRE K 1", "HSET K M S", "APPEND K M", "ZRANGESTORE K K 0 3"),
]
PLACES: Final = {
    "K": ["k", "l", "n"],
    "M": ["a", "b", "", "x" * 14, "x" * 15, "y" * 40],
    "S": ["0", "1", "-2.5", "inf"],
}


class FaultyIndex(HeldIndex):
    """An index that ends before or after a batch when it is told to; a server of which copies are kept.

    Attributes:
        ends: "before" or "after" the next batch, or never.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ends = ""

    def apply(self, number: int, changes: IndexChanges) -> None:
        """Apply a batch, unless the process ends before."""
        ends, self.ends = self.ends, ""
        if ends == "before":
            raise IndexUnavailableError("ended before")
        super().apply(number, changes)
        if ends == "after":
            raise IndexUnavailableError("ended after")


class Pair:
    """A state and its index, and the process that writes them.

    Args:
        random: of all that happens.
        records: the log.
    """

    def __init__(self, random: Random, records: list[Record]) -> None:
        self.met: Counter[str] = Counter()
        self._random = random
        self._records = records
        self._renew()

    def _renew(self) -> None:
        self._store, self._index = new_store(), FaultyIndex()
        self._kept = [(self._copy_of_store(), self._copy_of_index())]

    def run(self) -> None:
        """Apply the log to its end, whatever happens on the way."""
        while True:
            try:
                machine, served = self._open()
            except StateMismatchError:  # what an operator does then
                self.met["rebuilt"] += 1
                self._renew()
                continue
            except IndexUnavailableError:
                self._index.is_away = False
                continue
            try:
                while machine.next_offset < len(self._records):
                    self._step(machine, served)
            except IndexUnavailableError as error:
                self.met[str(error)] += 1
                continue
            if not self._index.is_away:
                return
            self._index.is_away = False

    def content(self) -> tuple[str, list[str]]:
        """The digest of both, and what is wrong with them."""
        served = IndexedStore(self._store, _layout(), self._index)
        return str(digest(served, _layout(), NOW_MS)), problems(served)

    def _open(self) -> tuple[Machine, IndexedStore]:
        fault = self._random.choice(["", "", "", "away", "index lost", "state lost"])
        if fault == "away":
            self._index.is_away = True
        elif fault and len(self._kept) > 1:
            store, index = self._random.choice(self._kept[:-1])
            if fault == "index lost":
                self._index.sets, self._index.reached = (
                    {name: dict(items) for name, items in index[0].items()},
                    index[1],
                )
            else:
                self._store = _store_of(store)
            self.met[fault] += 1
        served = IndexedStore(self._store, _layout(), self._index)
        return open_machine(served), served

    def _step(self, machine: Machine, served: IndexedStore) -> None:
        """A batch, or cleaning, during which the process may end."""
        self._index.ends = self._random.choice(["", "", "", "", "before", "after"])
        self._index.is_away = self._random.random() < 0.03
        if self._random.random() < 0.1:
            clean_all(machine, served)
        end = machine.next_offset + self._random.choice([1, 1, 3, 20])
        machine.apply(self._records[machine.next_offset : end], machine.next_offset)
        if self._random.random() < 0.1:
            raise IndexUnavailableError("ended before the state was written")
        machine.commit(FINGERPRINT)
        self._kept = [*self._kept[-3:], (self._copy_of_store(), self._copy_of_index())]

    def _copy_of_store(self) -> Changes:
        changes = Changes()
        for name in (*SHARED_CFS, *FAMILIES):
            changes.of(name).update(self._store.scan(name, b"", None))
        return changes

    def _copy_of_index(self) -> tuple[dict[bytes, dict[bytes, bytes]], int | None]:
        return {name: dict(items) for name, items in self._index.sets.items()}, self._index.reached


def _layout() -> Indexing:
    found = layout_of()
    assert isinstance(found, Indexing)
    return found


def _store_of(changes: Changes) -> MemoryStore:
    store = new_store()
    store.write(changes)
    return store


def _log(random: Random) -> list[Record]:
    records = []
    for offset in range(EVENTS):
        words = random.choice(LINES).split(" ")
        line = " ".join(random.choice(PLACES[word]) if word in PLACES else word for word in words)
        records.append(event(offset, line, at_ms=NOW_MS + 20 * offset))
    return records


def test_seeds_hold() -> None:
    """Whatever ends when: both come to what the log says, without a rebuild unless one of them lost what it had."""
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        random = Random(seed)
        records = _log(random)
        plain = new_store()
        feed(open_machine(plain), records, 1)
        pair = Pair(random, records)
        pair.run()

        assert (seed, str(digest(plain, _layout(), NOW_MS)), []) == (seed, *pair.content())
        met += pair.met
    assert met["rebuilt"] <= met["index lost"] + met["state lost"]
    assert {"ended before", "ended after", "the index is away", "rebuilt", "index lost", "state lost"} <= met.keys()
