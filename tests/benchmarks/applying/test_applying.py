"""The benchmarks run, print what they should, and refuse to measure a wrong result."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.__main__ import BIG_KEYS, run
from benchmarks.applying.compare import Comparison, WrongStateError
from benchmarks.applying.floor import Floor
from benchmarks.applying.model import Model
from benchmarks.applying.sources import Memory
from benchmarks.applying.subject import COLUMN_FAMILIES, HOME, open_store
from benchmarks.applying.trace import Batch, Trace, record
from benchmarks.applying.workloads import SMOKE, START_MS, WORKLOADS, Event, before, measured
from benchmarks.measure import Result, Seconds
from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.model import HASH, STRING
from engine.proof.digest import Digest, digest_of_items
from ingest.reporting.observer import Observer
from slotlog.events import decode

WITHOUT_BROKER = {
    "hset_engine",
    "hset_embedded",
    "hset_cold_engine",
    "set_embedded",
    "incr_embedded",
    "zadd_embedded",
    "lpush_embedded",
    "flights_embedded",
    "del_2000_fields",
    "zpopmin",
    "zpopmax",
}


async def lines(*sources: str) -> dict[str, dict[str, object]]:
    """The lines of a run at the smallest size, by name. Quix Streams is not installed where tests run."""
    results = [result async for result in run(SMOKE, [*WORKLOADS, *BIG_KEYS], list(sources))]
    return {result.name: json.loads(result.line()) for result in results}


async def test_every_benchmark_runs_without_a_broker() -> None:
    """All that needs no broker ends in the model's state, and gives a line with what a line must have."""
    found = await lines("engine", "embedded")

    assert WITHOUT_BROKER == found.keys()
    for line in found.values():
        assert ["name", "per_second", "floor_per_second", "ratio"] == list(line)[:4]


async def test_every_workload_runs_from_kafka(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workloads run from a topic, end in the model's state, and do as many gets and puts as from the other log."""
    monkeypatch.setenv("SLOTLOG_TEST_KAFKA", kafka_bootstrap)
    found = await lines("kafka")

    assert {f"{name}_kafka" for name in WORKLOADS} | {"del_2000_fields", "zpopmin", "zpopmax"} == found.keys()
    assert SMOKE.events == found["flights_kafka"]["events"]


@pytest.mark.parametrize("name", ["zpopmin", "zpopmax"])
def test_pops_read_what_they_pop(name: str, tmp_path: Path) -> None:
    """A pop reads one entry of the sorted set, however many were popped before it."""
    line = json.loads(BIG_KEYS[name](SMOKE, tmp_path).line())

    assert 1.0 == line["read_per_popped"]


def test_a_line_quotes_the_median_of_the_ratios() -> None:
    """Rates are those of the median pass of each side; the ratio is not theirs, but the median over the pairs."""
    walls = [(2.0, 1.0), (4.0, 1.0), (1.0, 2.0)]
    result = Result("x", 100, [(Seconds(ours, 1.0), Seconds(theirs, 0.25)) for ours, theirs in walls], {"more": 1})

    line = json.loads(result.line())

    assert 0 <= line.pop("load")
    assert {
        "name": "x",
        "per_second": 50,
        "floor_per_second": 100,
        "ratio": 0.5,
        "cpu_ratio": 0.25,
        "events": 100,
        "ratios": [0.5, 0.25, 2.0],
        "more": 1,
    } == line


def test_a_trace_has_every_get_and_put(tmp_path: Path) -> None:
    """HSET to a new hash reads its metadata and puts two records; later ones put what changes; others read."""
    events = [Event(START_MS, "HSET", [b"h", field, b"v"]) for field in (b"a", b"b", b"a", b"a")]
    decoded = [decode(offset, event.time_ms, event.value()) for offset, event in enumerate(events)]
    with closing(open_store(tmp_path)) as store:
        written = record(store, HOME, decoded[:3], 1)
        read = record(store, HOME, decoded[3:], 1)

    def without_system(batch: Batch) -> tuple[int, dict[str, int], dict[str, int]]:
        gets = {name: len(keys) for name, keys in batch.gets.items()}
        puts = {name: len(pairs) for name, pairs in batch.puts.items() if pairs and name != "system"}
        return batch.records, gets, puts

    assert [
        (1, {"metadata": 1}, {"metadata": 1, "data": 1}),
        (1, {}, {"metadata": 1, "data": 1}),
        (1, {}, {"data": 1}),
    ] == [without_system(batch) for batch in written.batches]
    assert [(1, {"metadata": 1, "data": 1}, {"data": 1})] == [without_system(batch) for batch in read.batches]


def test_a_trace_has_every_scan_and_the_floor_repeats_it(tmp_path: Path) -> None:
    """Where a block of ranks is split, its members are read. The trace has these scans, the floor repeats them."""
    events = [
        Event(START_MS, "ZADD", [b"z", *(part for n in range(k, k + 64) for part in (b"%d" % n, b"m%d" % n))])
        for k in range(0, 1024, 64)
    ]
    decoded = [decode(offset, event.time_ms, event.value()) for offset, event in enumerate(events)]
    scores = NeoKV.families[Kind.SCORES]
    with closing(open_store(tmp_path / "engine")) as store:
        trace = record(store, HOME, decoded, 1)
        wanted = list(store.scan(scores, b"", None))
    scans = [scan for batch in trace.batches for scan in batch.scans.get(scores, ())]
    with closing(Floor(tmp_path / "floor", COLUMN_FAMILIES, trace)) as floor:
        floor.take_all()

    assert scans
    assert {False} == {scan.reverse for scan in scans}
    with closing(open_store(tmp_path / "floor")) as store:
        assert wanted == list(store.scan(scores, b"", None))


def test_a_floor_that_does_less_is_refused(tmp_path: Path) -> None:
    """A floor that ends before its trace does is an error, not a fast one."""
    floor = Floor(tmp_path, COLUMN_FAMILIES, Trace([Batch(records=2), Batch(records=2)]))
    floor.take([b"\x01"] * 3)

    with pytest.raises(RuntimeError, match="did 1 of 2 batches"):
        floor.close()


async def test_a_wrong_state_is_refused(tmp_path: Path) -> None:
    """The canary: an engine that leaves out the last event is found, however fast it was."""

    class Lazy(Memory):
        async def apply(self, state: Path, end: int, batches: Observer) -> Seconds:
            return await super().apply(state, end - 1, batches)

    source = Lazy(before("hset", SMOKE), measured("hset", SMOKE))
    with pytest.raises(WrongStateError, match="the engine ended with"):
        await Comparison("hset_engine", source, tmp_path).run(1)


def test_the_model_means_what_redis_means() -> None:
    """The model on a few events of each kind, a duplicate and an expired hash among them."""
    model = Model()
    events = [
        Event(START_MS, "HSET", ["h", "a", 1, "b", "2"]),
        Event(START_MS, "EXEC", [["HSET", "gone", "a", "1"], ["PEXPIRE", "gone", 10]]),
        Event(START_MS, "INCR", ["n"], "once"),
        Event(START_MS + 10, "INCR", ["n"], "once"),
    ]
    model.apply([(offset, event.time_ms, event.key(), event.value()) for offset, event in enumerate(events)])

    items = [(0, b"h", HASH, 0, {b"a": b"1", b"b": b"2"}), (0, b"n", STRING, 0, b"1")]
    assert (3, digest_of_items(items)) == (model.new_fields, model.digest())
    assert Digest() == Model().digest()
