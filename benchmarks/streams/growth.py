"""Measures in the engine alone what commands on streams cost by the number of entries.

    streams_xadd_…_engine         XADD of one field to a stream of so many entries
    streams_xreadgroup_…_engine   XREADGROUP of the next entry, with so many pending in its group
    streams_xack_…_engine         XACK of the oldest of so many pending entries
    streams_xack_any_…_engine     XACK of any of them, drawn at random and looked at before: it is in the block cache
    streams_xack_cold_…_engine    XACK of any of them, drawn at random: in a long stream each is in a block that has to
                                  be read, checked and decompressed first

Each round acknowledges entries that were pending before, a third of them the oldest, and adds and reads as many; then
the stream is trimmed. So there are always as many, and as many pending. `growth` is by the shortest stream of the same
round. The machine is on RocksDB, in this process, and commits batches of 100. Before each round all that is in memory
is written to tables, and compacted where there are many: what is acknowledged is read from there in each stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applying.subject import HOME, open_store
from benchmarks.applying.workloads import SEED
from benchmarks.resp.commands import LoadError
from benchmarks.resp.data import Cost, DataResult, Engine
from benchmarks.streams.rates import StreamsSize
from engine.apply.machine import Machine
from engine.errors import CommandError

KINDS: Final = ("xadd", "xreadgroup", "xack", "xack_any", "xack_cold")
_FILLED_AT_ONCE: Final = 1000
_ROUNDS: Final = 5  # as short as they are, more of them are run


class GrowingStream:
    """A stream of a constant length in the engine, all of it pending.

    Args:
        engine: where it is.
        length: how many entries it has.
    """

    def __init__(self, engine: Engine, length: int) -> None:
        self._engine = engine
        self._length = length
        self._name = b"stream:%d" % length
        self._added = 0
        self._pending: list[int] = []
        self._random = Random(SEED)
        self._engine.write([[b"XGROUP|CREATE", self._name, b"group", b"0", b"MKSTREAM"]])
        for start in range(0, length, _FILLED_AT_ONCE):
            count = min(_FILLED_AT_ONCE, length - start)
            self._engine.write(self._adds(count))
            self._engine.write([self._read(count)])

    def run(self, commands: int) -> dict[str, Cost]:
        """Add, read and acknowledge so many entries, one with each command; what one took, by its kind.

        Raises:
            LoadError: some of them did nothing.
        """
        part = commands // 3
        oldest, newer = self._pending[:part], self._pending[part:]
        drawn = self._random.sample(newer, commands - part)
        self._pending = sorted(set(newer) - set(drawn))
        costs = {"xadd": self._timed(self._adds(commands)), "xreadgroup": self._timed([self._read(1)] * commands)}
        costs["xack"] = self._timed(self._acknowledgements(oldest))
        costs["xack_cold"] = self._timed(self._acknowledgements(drawn[part:]))
        for number in drawn[:part]:
            self._engine.read([b"XPENDING", self._name, b"group", b"%d-0" % number, b"%d-0" % number, b"1"])
        costs["xack_any"] = self._timed(self._acknowledgements(drawn[:part]))
        self._engine.write([[b"XTRIM", self._name, b"MAXLEN", b"%d" % self._length]])
        return costs

    def _adds(self, count: int) -> list[list[bytes]]:
        numbers = range(self._added + 1, self._added + count + 1)
        self._added += count
        self._pending += numbers
        return [[b"XADD", self._name, b"%d-0" % number, b"field", b"VXK"] for number in numbers]

    def _read(self, count: int) -> list[bytes]:
        return [b"XREADGROUP", b"GROUP", b"group", b"consumer", b"COUNT", b"%d" % count, b"STREAMS", self._name, b">"]

    def _acknowledgements(self, numbers: Sequence[int]) -> list[list[bytes]]:
        return [[b"XACK", self._name, b"group", b"%d-0" % number] for number in numbers]

    def _timed(self, commands: Sequence[list[bytes]]) -> Cost:
        cost, replies = self._engine.run(commands, float("inf"))
        if not all(replies) or any(isinstance(reply, CommandError) for reply in replies):
            raise LoadError(f"{commands[0][0]!r} had nothing to do: {replies[:5]}")
        return cost


def run_growth(size: StreamsSize) -> Iterator[DataResult]:
    """All rows, the shortest stream of each kind first."""
    with (
        TemporaryDirectory(prefix="slotlog-bench-") as directory,
        closing(open_store(Path(directory) / "state")) as store,
    ):
        engine = Engine(Machine(store, HOME))
        streams = {length: GrowingStream(engine, length) for length in size.growing}
        rounds = []
        for _ in range(size.rounds * _ROUNDS):
            store.flush_all()
            store.settle()
            rounds.append({length: each.run(size.commands) for length, each in streams.items()})
    for kind in KINDS:
        smallest = [costs[size.growing[0]][kind] for costs in rounds]
        for length in size.growing:
            taken = [costs[length][kind] for costs in rounds]
            yield DataResult(f"streams_{kind}_{length}_engine", size.commands, {"engine": taken}, {"engine": smallest})
