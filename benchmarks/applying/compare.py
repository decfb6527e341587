"""Runs one workload from one source: the engine and the floor in turn, both checked against the model."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from benchmarks.applying import subject, trace
from benchmarks.applying.floor import Floor
from benchmarks.applying.model import Model
from benchmarks.applying.sources import Source
from benchmarks.applying.subject import COLUMN_FAMILIES, HOME, Batches
from benchmarks.applying.trace import Trace
from benchmarks.measure import Result, Seconds, settle_heap
from engine.apply.machine import Record
from engine.proof.digest import Digest
from slotlog.events import decode


class WrongStateError(RuntimeError):
    """A pass led to another state than the model: whatever it measured is worth nothing."""


class Comparison:
    """The passes of one workload from one source. `scratch` is an empty directory."""

    def __init__(self, name: str, source: Source, scratch: Path) -> None:
        self.name = name
        self.model = Model()
        self._source = source
        self._base = scratch / "base"
        self._state = scratch / "state"
        self._records: list[Record] = []
        self._expected = Digest()

    async def run(self, pairs: int) -> Result:
        """One pass of each to warm up and to count, then `pairs` measured ones.

        Raises:
            WrongStateError: the engine or the floor ended in another state than the model.
        """
        await self._read()
        batches = Batches()
        if self._source.start:
            await self._source.apply(self._base, self._source.start, Batches())
        await self._engine(batches, check=True)
        recorded = self._record(round(batches.records / batches.count))
        await self._floor(recorded, check=True)
        passes = [(await self._engine(batches), await self._floor(recorded)) for _ in range(pairs)]
        shutil.rmtree(self._base, ignore_errors=True)
        events = recorded.records
        extra = {
            "batch_records": round(batches.records / batches.count),
            "gets_per_event": round(recorded.gets / events, 2),
            "puts_per_event": round(recorded.puts / events, 2),
        }
        return Result(self.name, events, passes, extra)

    async def _read(self) -> None:
        """Let the model apply everything, and keep what is measured."""
        async for records in self._source.records():
            self.model.apply(records)
            self._records += [
                decode(at, time_ms, value) for at, time_ms, _, value in records if at >= self._source.start
            ]
        self._expected = self.model.digest()

    async def _engine(self, batches: Batches, *, check: bool = False) -> Seconds:
        self._prepare()
        seconds = await self._source.apply(self._state, self._source.end, batches)
        self._finish("the engine", check=check)
        return seconds

    async def _floor(self, recorded: Trace, *, check: bool = False) -> Seconds:
        self._prepare()
        with closing(Floor(self._state, COLUMN_FAMILIES, recorded)) as floor:
            seconds = await self._source.floor(floor)
        self._finish("the floor", check=check)
        return seconds

    def _record(self, batch_records: int) -> Trace:
        self._prepare()
        with closing(subject.open_store(self._state)) as store:
            recorded = trace.record(store, HOME, self._records, batch_records)
        self._finish("the recording", check=False)
        self._records = []
        return recorded

    def _prepare(self) -> None:
        """The state that a pass begins with, and a heap as a service has it."""
        if self._base.exists():
            shutil.copytree(self._base, self._state)
        settle_heap()

    def _finish(self, who: str, *, check: bool) -> None:
        if check and (digest := subject.state_digest(self._state)) != self._expected:
            raise WrongStateError(f"{self.name}: {who} ended with {digest}, the model with {self._expected}")
        shutil.rmtree(self._state)
