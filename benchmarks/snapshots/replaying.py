"""Measures `slotlog replay` of HSETs beside the floor, from both logs, in one process and in two.

replay_hset_embedded, replay_hset_kafka    a log of two partitions: 10,000 hashes of 20 fields in each

`per_second` is one process with one partition; `floor_per_second` the floor with the same one, which has no write-ahead
log either, and the options of the replay. `two_per_second` is two processes, each with one partition. These are rates
while events are applied, from the last look on at which at most a tenth was. `whole_per_second` and
`two_whole_per_second` are those of the whole command: starts, the last flush, compaction and digest count. Each state
that is built must have the digest of a plain model.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final, NamedTuple

from benchmarks.applying import floor, trace
from benchmarks.applying.compare import WrongStateError
from benchmarks.applying.floor import Floor
from benchmarks.applying.model import Model
from benchmarks.applying.sources import EMBEDDED, KAFKA, running_broker
from benchmarks.applying.subject import COLUMN_FAMILIES
from benchmarks.applying.trace import Trace
from benchmarks.applying.workloads import SEED, START_MS, VALUE_BYTES
from benchmarks.measure import Result, Seconds, settle_heap
from engine.layouts.neokv import NeoKV
from engine.proof.digest import Digest, digest
from engine.store.rocks import RocksStore
from engine.tables.system import Home
from ops.config import Settings, load_settings
from ops.state.rebuilding.replay import RECORDS_MAX, Replayed, replay_at_once
from ops.state.rebuilding.replay_plan import Gap, Until
from slotlog.events import decode, encode
from slotlog.log import Entry, KafkaSettings, open_log
from slotlog.shared.slots import partition_of, slot

PARTITIONS: Final = 2
_AT_ONCE: Final = 1000
_FIELDS: Final = 20
_BEGUN: Final = 0.1
"""Part of the events after which all processes have begun."""


@dataclass(frozen=True, slots=True)
class ReplaySize:
    """How much is measured.

    Attributes:
        events: in each partition.
        hashes: in each partition.
        pairs: runs of each.
    """

    events: int
    hashes: int
    pairs: int


REPLAY_LARGE: Final = ReplaySize(events=500_000, hashes=10_000, pairs=5)
REPLAY_SMOKE: Final = ReplaySize(events=300, hashes=20, pairs=1)


class Look(NamedTuple):
    """How many events were applied at a moment: wall time, and CPU time of this process."""

    wall: float
    cpu: float
    done: int


@dataclass(slots=True)
class Pass:
    """One replay: when it began and ended, and how far it was meanwhile."""

    began: float = 0.0
    ended: float = 0.0
    looks: list[Look] = field(default_factory=list)

    def note(self, done: int, _total: int) -> None:
        """Take a look."""
        self.looks.append(Look(perf_counter(), process_time(), done))

    def applying(self, events: int) -> Seconds:
        """For all events, from what was seen of most of them."""
        begin = [look for look in self.looks if look.done <= _BEGUN * events][-1]
        end = next(look for look in self.looks if look.done == events)
        part = events / (events - begin.done)
        return Seconds((end.wall - begin.wall) * part, (end.cpu - begin.cpu) * part)


class Filled(NamedTuple):
    """A log with events in each partition, and what they must come to.

    Attributes:
        url: of the log.
        topic: of the events.
        digests: by partition.
        recorded: the gets and puts of partition 0.
    """

    url: str
    topic: str
    digests: list[Digest]
    recorded: Trace


async def run_replay(size: ReplaySize, sources: Sequence[str]) -> AsyncIterator[Result]:
    """A line for each log that `sources` has.

    Raises:
        WrongStateError: a state is not that of the model.
    """
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        scratch = Path(directory)
        if EMBEDDED in sources:
            path = scratch / "log.db"
            filled = await _fill(size, f"sqlite:///{path}", scratch)

            def from_sqlite(floor_: Floor) -> Seconds:
                return floor.from_sqlite(floor_, path, 0, size.events)

            yield await asyncio.to_thread(_measure, EMBEDDED, size, filled, from_sqlite, scratch)
        if KAFKA in sources:
            async with running_broker() as bootstrap:
                filled = await _fill(size, f"kafka://{bootstrap}", scratch)
                topic = filled.topic

                def from_kafka(floor_: Floor) -> Seconds:
                    return asyncio.run(floor.from_kafka(floor_, bootstrap, topic, 0, size.events))

                yield await asyncio.to_thread(_measure, KAFKA, size, filled, from_kafka, scratch)


# ---------------------------------------------------------------------- the log


async def _fill(size: ReplaySize, url: str, scratch: Path) -> Filled:
    """Append the events, and find out what they come to."""
    topic = f"bench-{secrets.token_hex(4)}"
    log = open_log(url, topic=topic, partitions=PARTITIONS, kafka=KafkaSettings(replicas=1))
    await log.start()
    digests = []
    try:
        for partition in range(PARTITIONS):
            model = Model()
            events = islice(_hsets(partition, size), size.events)
            while entries := list(islice(events, _AT_ONCE)):
                await log.append(entries)
                model.apply([(0, START_MS, None, entry.value) for entry in entries])
            digests.append(model.digest())
    finally:
        await log.close()
    records = [
        decode(offset, START_MS, entry.value) for offset, entry in enumerate(islice(_hsets(0, size), size.events))
    ]
    with closing(RocksStore(scratch / "recording", COLUMN_FAMILIES, bulk=True)) as store:
        recorded = trace.record(store, _home(topic), records, RECORDS_MAX)
    shutil.rmtree(scratch / "recording")
    return Filled(url, topic, digests, recorded)


def _hsets(partition: int, size: ReplaySize) -> Iterator[Entry]:
    random = Random(SEED + partition)
    numbers = (b"hash:%07d" % number for number in range(10 * PARTITIONS * size.hashes))
    names = [name for name in numbers if partition_of(slot(name), PARTITIONS) == partition][: size.hashes]
    while True:
        name, field_name = random.choice(names), b"field:%02d" % random.randrange(_FIELDS)
        value = encode("HSET", [name, field_name, random.randbytes(VALUE_BYTES)])
        yield Entry(partition, slot(name).to_bytes(2, "big"), value, START_MS)


def _home(topic: str) -> Home:
    return Home(topic, 0, PARTITIONS, NeoKV.name)


# ---------------------------------------------------------------------- passes


def _measure(
    source: str, size: ReplaySize, filled: Filled, pass_floor: Callable[[Floor], Seconds], scratch: Path
) -> Result:
    """One floor to check it, then rounds of floor, one process and two."""
    one = load_settings(data=scratch / "none", log=filled.url, topic=filled.topic, partitions=PARTITIONS, own="0")
    both = one.model_copy(update={"own": ""})
    _floor(filled, pass_floor, scratch, check=True)
    pairs: list[tuple[Seconds, Seconds]] = []
    whole: dict[int, list[float]] = {1: [], 2: []}
    two: list[float] = []
    for _ in range(size.pairs):
        beside = _floor(filled, pass_floor, scratch)
        ours = _replay(one, filled, 1, scratch)
        pairs.append((ours.applying(size.events), beside))
        whole[1].append(size.events / (ours.ended - ours.began))
        ours = _replay(both, filled, PARTITIONS, scratch)
        events = PARTITIONS * size.events
        two.append(events / ours.applying(events).wall)
        whole[2].append(events / (ours.ended - ours.began))
    ratios = [rate / (size.events / seconds.wall) for rate, (seconds, _) in zip(two, pairs, strict=True)]
    more = {
        "two_per_second": round(median(two)),
        "two_ratio": round(median(ratios), 3),
        "whole_per_second": round(median(whole[1])),
        "two_whole_per_second": round(median(whole[2])),
    }
    return Result(f"replay_hset_{source}", size.events, pairs, more)


def _replay(settings: Settings, filled: Filled, processes: int, scratch: Path) -> Pass:
    built = scratch / "built"
    settle_heap()
    ours = Pass(began=perf_counter())
    results = replay_at_once(settings, built, Until(), start=_no_snapshot, processes=processes, tell=ours.note)
    ours.ended = perf_counter()
    _expect(results, filled)
    shutil.rmtree(built)
    return ours


def _no_snapshot(_target: Settings, gap: Gap) -> int:
    raise RuntimeError(f"partition {gap.partition} begins at offset {gap.begin}")


def _expect(results: Sequence[Replayed], filled: Filled) -> None:
    for each in results:
        if each.digest != filled.digests[each.partition]:
            raise WrongStateError(f"a replay of partition {each.partition} ended with {each.digest}")


def _floor(filled: Filled, pass_floor: Callable[[Floor], Seconds], scratch: Path, *, check: bool = False) -> Seconds:
    path = scratch / "floor"
    settle_heap()
    with closing(Floor(path, COLUMN_FAMILIES, filled.recorded, bulk=True)) as beside:
        seconds = pass_floor(beside)
    if check:
        with closing(RocksStore(path, COLUMN_FAMILIES)) as store:
            found = digest(store, NeoKV(0), START_MS)
        if found != filled.digests[0]:
            raise WrongStateError(f"the floor of a replay ended with {found}")
    shutil.rmtree(path)
    return seconds
