"""Runs the benchmarks and prints one JSON line for each result, as soon as it is there.

    {"name": "hset_kafka", "per_second": …, "floor_per_second": …, "ratio": …, "cpu_ratio": …, "events": …, …}

`floor_per_second` is the rate of what stands beside: the floor, in `quix_…` Quix Streams, in `del_…_fields` DEL of a
hash of 10 fields, in `zpopmin` and `zpopmax` the first tenth of the pops. `ratio` is ours by theirs, the median of
`ratios`, one for each pair of passes; `cpu_ratio` is the same by CPU time. With `SLOTLOG_NATIVE=false` a name from
Kafka ends with `_python`. `resp` has fields of its own: its rate, latencies and CPU time, `always_ratio` and
`everysec_ratio`, and the same figures of these two rivals. `single_…` have those of a floor and of valkey-server, and
`p99_ratio` and `floor_p99_ratio` by the latter's. `data` has `us` a command, its CPU time, and of sorted sets the
growth of both, by the times with the smallest one. `client_…`, `caching_…` and `script_…` have the same figures of
valkey-server beside theirs, called `valkey_…`, and so have `held_…` and `streams_…`; the latter have `hset_ratio` by
HSET of the same server, too, and in the engine alone the growth by the shortest stream. `processes_…` have the rate of
one process, and of two as `two_per_second`, and the mean time of an append.
`layouts_…` have rates of writes, reads and counts, their ratios to those of the default layout by CPU time, and bytes
on disk a key.
`stages_…` have `…_us`, the CPU time of each stage of an event, and with `--instructions` `…_instructions`.
`replay_…` have the rate of two processes as `two_per_second`, and those of the whole command; `snapshot` and
`restore_…` have figures of their own (benchmarks/snapshots).
`past_…` have times of reads in the past, and their growth with the log (benchmarks/past).
`memory_…` have resident memory, beside `aim_mb` (benchmarks/resp/memory.py).
`failover_…` have the seconds from a SIGKILL to the first write and read that another worker takes, as `write_s` and
`read_s`, beside `session_s`, before which no group gives a dead worker up.
`import_redis` stands beside SCAN and DUMP alone, and has the rate of a pass that finds no difference as
`again_per_second`.

With `--results FILE` the lines are added to that file, behind one that says where and when they were measured, and
`.svg` in the place of its ending shows them as a chart. Of lines with one name the last one counts.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applying import big_keys, quix, quix_two
from benchmarks.applying.compare import Comparison
from benchmarks.applying.sources import (
    EMBEDDED,
    ENGINE,
    KAFKA,
    SOURCES,
    Memory,
    open_embedded,
    open_kafka,
    running_broker,
)
from benchmarks.applying.stages import run_stages
from benchmarks.applying.workloads import LARGE, SMOKE, WORKLOADS, Size, before, measured
from benchmarks.cleaning.cleaning import CLEANING_LARGE, CLEANING_SMOKE, CleaningResult, run_cleaning
from benchmarks.cleaning.reclaiming import RECLAIMING_LARGE, RECLAIMING_SMOKE, ReclaimingResult, run_reclaiming
from benchmarks.group.failover import FAILOVER_LARGE, FAILOVER_SMOKE, run_failover
from benchmarks.importing.importing import IMPORT_LARGE, IMPORT_SMOKE, run_importing
from benchmarks.layouts.rates import LAYOUTS_LARGE, LAYOUTS_SMOKE, LayoutResult, run_layouts
from benchmarks.measure import Line, Result
from benchmarks.metrics.cost import CountResult, ScrapeResult, run_metrics
from benchmarks.past.reading import PAST_LARGE, PAST_SMOKE, run_past, up_to
from benchmarks.resp.caching import CACHING_LARGE, CACHING_SMOKE, run_caching
from benchmarks.resp.commands import COMMANDS, DEPTHS, RESP_LARGE, RESP_SMOKE, RespResult, RespSize, run_resp
from benchmarks.resp.data import DataResult, run_data
from benchmarks.resp.data_floor import run_floor
from benchmarks.resp.data_works import DATA_LARGE, DATA_SMOKE, DataSize
from benchmarks.resp.held import HeldResult, run_held
from benchmarks.resp.held_works import HELD_LARGE, HELD_SMOKE
from benchmarks.resp.memory import MEMORY_LARGE, MEMORY_SMOKE, run_memory
from benchmarks.resp.one_client import CLIENT_LARGE, CLIENT_SMOKE, run_clients
from benchmarks.resp.processes import PROCESSES_LARGE, PROCESSES_SMOKE, ProcessesResult, run_processes
from benchmarks.resp.scripts import SCRIPTS_LARGE, SCRIPTS_SMOKE, run_scripts
from benchmarks.resp.single_writes import SINGLE_LARGE, SINGLE_SMOKE, SingleResult, run_single
from benchmarks.resp.two_servers import Figures
from benchmarks.results.chart import draw
from benchmarks.results.figures import description
from benchmarks.snapshots.replaying import REPLAY_LARGE, REPLAY_SMOKE, run_replay
from benchmarks.snapshots.restoring import LARGE_KEYS, RESTORE_LARGE, RESTORE_SMOKE, run_restore
from benchmarks.snapshots.taking import SNAPSHOT_LARGE, SNAPSHOT_SMOKE, run_snapshot
from benchmarks.streams.growth import run_growth
from benchmarks.streams.rates import STREAMS_LARGE, STREAMS_SMOKE, run_rates
from engine import native
from ops.config import load_settings
from ops.logging import configure_logging
from ops.serving.process import tune_collector

QUIX: Final = "quix_hset"
BIG_KEYS: Final[dict[str, Callable[[Size, Path], Result]]] = {
    "del": big_keys.deletes,
    "zpopmin": lambda size, directory: big_keys.pops(size, directory, b"ZPOPMIN"),
    "zpopmax": lambda size, directory: big_keys.pops(size, directory, b"ZPOPMAX"),
}
RESP: Final = "resp"
SINGLE: Final = "single"
DATA: Final = "data"
METRICS: Final = "metrics"
RECLAIM_BESIDE: Final = "reclaim_beside"
CLEANING: Final = "cleaning"
CLIENT: Final = "client"
CACHING: Final = "caching"
SCRIPTS: Final = "scripts"
PROCESSES: Final = "processes"
HELD: Final = "held"
MEMORY: Final = "memory"
LAYOUTS: Final = "layouts"
IMPORT: Final = "import"
STREAMS: Final = "streams"
STAGES: Final = "stages"
REPLAY: Final = "replay"
SNAPSHOT: Final = "snapshot"
RESTORE: Final = "restore"
PAST: Final = "past"
FAILOVER: Final = "failover"
NAMES: Final = (
    *WORKLOADS,
    QUIX,
    quix_two.NAME,
    *BIG_KEYS,
    RESP,
    SINGLE,
    DATA,
    METRICS,
    RECLAIM_BESIDE,
    CLEANING,
    CLIENT,
    CACHING,
    SCRIPTS,
    PROCESSES,
    HELD,
    MEMORY,
    LAYOUTS,
    IMPORT,
    STREAMS,
    STAGES,
    REPLAY,
    SNAPSHOT,
    RESTORE,
    PAST,
    FAILOVER,
)

# The engine proper is what HSET is judged by; the cold state is large, so it is built for two sources only.
_SOURCES_OF: Final = {"hset": SOURCES, "hset_cold": (ENGINE, KAFKA)}
_PYTHON_ALONE: Final = "_python"
"""Ends the names of lines that tell of Python without what is compiled."""

_USUAL_SOURCES: Final = (EMBEDDED, KAFKA)
_SIZES: Final = {"smoke": (SMOKE, RESP_SMOKE, DATA_SMOKE), "large": (LARGE, RESP_LARGE, DATA_LARGE)}

_OneResult = Result | RespResult | SingleResult | DataResult | CountResult | ScrapeResult
_AnyResult = (
    _OneResult | ReclaimingResult | CleaningResult | Figures | HeldResult | LayoutResult | ProcessesResult | Line
)


async def run(size: Size, names: list[str], sources: list[str]) -> AsyncIterator[Result | Line]:
    """Measure the benchmarks in `names`, their events from those of `sources` that they have."""
    for name in names:
        if name in BIG_KEYS:
            with TemporaryDirectory(prefix="slotlog-bench-") as directory:
                yield BIG_KEYS[name](size, Path(directory) / "state")
        elif name in WORKLOADS:
            for source in _SOURCES_OF.get(name, _USUAL_SOURCES):
                if source == ENGINE and source in sources:
                    yield await _engine(size, name)
                elif source == EMBEDDED and source in sources:
                    yield await _embedded(size, name)
    if KAFKA in sources and any(name in WORKLOADS or name in {QUIX, quix_two.NAME} for name in names):
        async with running_broker() as bootstrap:
            for name in names:
                if name in WORKLOADS or (name == QUIX and "hset" not in names):
                    async for result in _kafka(size, name, names, bootstrap):
                        yield result
                elif name == quix_two.NAME:
                    yield await quix_two.compare(size, bootstrap)


async def _engine(size: Size, name: str) -> Result:
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        source = Memory(before(name, size), measured(name, size))
        return await Comparison(f"{name}_{ENGINE}", source, Path(directory)).run(size.pairs)


async def _embedded(size: Size, name: str) -> Result:
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        scratch = Path(directory)
        async with open_embedded(scratch, before(name, size), measured(name, size)) as source:
            return await Comparison(f"{name}_{EMBEDDED}", source, scratch).run(size.pairs)


async def _kafka(size: Size, name: str, names: list[str], bootstrap: str) -> AsyncIterator[Result]:
    """A workload from Kafka; after `hset`, Quix Streams on the same topic, if it is wanted."""
    workload = "hset" if name == QUIX else name
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        scratch = Path(directory)
        async with open_kafka(bootstrap, before(workload, size), measured(workload, size)) as source:
            build = "" if native.chosen() else _PYTHON_ALONE
            comparison = Comparison(f"{workload}_{KAFKA}{build}", source, scratch)
            yield await comparison.run(size.pairs)
            if workload == "hset" and QUIX in names:
                yield await quix.compare(QUIX, source, scratch, comparison.model.new_fields, size.pairs)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {', '.join(NAMES)} (all)")
    parser.add_argument("--sources", default=",".join(SOURCES), help=f"some of {', '.join(SOURCES)} (all)")
    parser.add_argument("--size", choices=_SIZES, default="large", help="smoke: seconds, and no figure to quote")
    parser.add_argument(
        "--events",
        type=int,
        help="events of a pass, requests of a run of resp, at most of data; of past: of the longest log",
    )
    parser.add_argument("--pairs", type=int, help="how often each pass is repeated")
    parser.add_argument("--commands", default=",".join(COMMANDS), help=f"of resp, some of {', '.join(COMMANDS)} (all)")
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)), help="of resp: commands in a pipeline")
    parser.add_argument("--rows", default="", help="of held, data: those whose names contain one of these words (all)")
    parser.add_argument("--keys", type=int, default=0, help="of import, snapshot, restore: how many")
    parser.add_argument(
        "--results", type=Path, help="add the lines to this file, and draw their chart beside it, as .svg"
    )
    parser.add_argument("--logs", type=Path, help="of past: a directory that keeps the logs for the next run")
    parser.add_argument("--large", action="store_true", help=f"of restore: {LARGE_KEYS:,} keys, too")
    parser.add_argument("--instructions", action="store_true", help="of stages: count them, too, which valgrind does")
    options = parser.parse_args()
    configure_logging("warning")
    load_settings()  # SLOTLOG_NATIVE=false: Python alone
    names, sources, commands = options.only.split(","), options.sources.split(","), options.commands.split(",")
    for given, known in ((names, NAMES), (sources, SOURCES), (commands, COMMANDS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    size, resp_size, data_size = _SIZES[options.size]
    size = replace(size, events=options.events or size.events, pairs=options.pairs or size.pairs)
    resp_size = replace(
        resp_size,
        requests=options.events or resp_size.requests,
        pairs=options.pairs or resp_size.pairs,
        commands=commands,
        depths=[int(depth) for depth in options.depths.split(",")],
    )
    data_size = replace(
        data_size, commands=options.events or data_size.commands, pairs=options.pairs or data_size.pairs
    )
    tune_collector()  # as the service does, for both sides
    if options.results is not None:
        _show(description(), options.results)
    if STAGES in names and ENGINE in sources:
        for result in run_stages(size, counts=options.instructions):
            _show(result.line(), options.results)
    asyncio.run(_print(size, resp_size, data_size, names, sources, options))
    if options.results is not None:
        draw(options.results)


def _show(line: str, results: Path | None) -> None:
    """Print a line, and add it to the file that is to have the results."""
    print(line, flush=True)
    if results is not None:
        with results.open("a") as file:
            file.write(f"{line}\n")


async def _print(
    size: Size,
    resp_size: RespSize,
    data_size: DataSize,
    names: list[str],
    sources: list[str],
    options: argparse.Namespace,
) -> None:
    results: list[AsyncIterator[_AnyResult]]
    results = [run(size, names, sources), _streams(size, sources if STREAMS in names else [])]
    results += [run_resp(resp_size, sources)] if RESP in names else []
    if DATA in names:
        results += [run_data(data_size, sources, options.rows), run_floor(data_size, sources, options.rows)]
    if METRICS in names:
        results.append(run_metrics(size, resp_size))
    if RECLAIM_BESIDE in names and EMBEDDED in sources:
        results.append(run_reclaiming(RECLAIMING_SMOKE if size.events <= SMOKE.events else RECLAIMING_LARGE))
    if CLEANING in names and ENGINE in sources:
        results.append(run_cleaning(CLEANING_SMOKE if size.events <= SMOKE.events else CLEANING_LARGE))
    if PROCESSES in names:
        processes = PROCESSES_SMOKE if size.events <= SMOKE.events else PROCESSES_LARGE
        results.append(run_processes(replace(processes, pairs=min(processes.pairs, size.pairs)), sources))
    if HELD in names and EMBEDDED in sources:
        held = HELD_SMOKE if size.events <= SMOKE.events else HELD_LARGE
        results.append(run_held(replace(held, runs=min(held.runs, size.pairs)), options.rows))
    if LAYOUTS in names and ENGINE in sources:
        layouts = LAYOUTS_SMOKE if size.events <= SMOKE.events else LAYOUTS_LARGE
        results.append(run_layouts(replace(layouts, rounds=min(layouts.rounds, size.pairs))))
    if IMPORT in names and EMBEDDED in sources:
        import_size = IMPORT_SMOKE if size.events <= SMOKE.events else IMPORT_LARGE
        results.append(run_importing(replace(import_size, keys=options.keys or import_size.keys)))
    results += _of_clients(size, names) if EMBEDDED in sources else []
    results += _of_snapshots(size, names, sources, options)
    results += _of_groups(size, names, sources, options)
    for lines in results:
        async for result in lines:
            _show(result.line(), options.results)


def _of_clients(size: Size, names: list[str]) -> list[AsyncIterator[_AnyResult]]:
    results: list[AsyncIterator[_AnyResult]] = []
    is_smoke = size.events <= SMOKE.events
    if SINGLE in names:
        single = SINGLE_SMOKE if is_smoke else SINGLE_LARGE
        results.append(run_single(replace(single, pairs=min(single.pairs, size.pairs))))
    if CLIENT in names:
        results.append(run_clients(CLIENT_SMOKE if is_smoke else CLIENT_LARGE))
    if SCRIPTS in names:
        results.append(run_scripts(SCRIPTS_SMOKE if is_smoke else SCRIPTS_LARGE))
    if MEMORY in names:
        results.append(run_memory(MEMORY_SMOKE if is_smoke else MEMORY_LARGE))
    if CACHING in names:
        results.append(run_caching(CACHING_SMOKE if is_smoke else CACHING_LARGE))
    return results


def _of_snapshots(
    size: Size, names: list[str], sources: list[str], options: argparse.Namespace
) -> list[AsyncIterator[_AnyResult]]:
    results: list[AsyncIterator[_AnyResult]] = []
    is_smoke = size.events <= SMOKE.events
    if REPLAY in names:
        replay_size = REPLAY_SMOKE if is_smoke else REPLAY_LARGE
        events, pairs = options.events or replay_size.events, options.pairs or replay_size.pairs
        results.append(run_replay(replace(replay_size, events=events, pairs=pairs), sources))
    if SNAPSHOT in names and EMBEDDED in sources:
        snapshot_size = SNAPSHOT_SMOKE if is_smoke else SNAPSHOT_LARGE
        snapshot_size = replace(snapshot_size, keys=options.keys or snapshot_size.keys)
        results.append(run_snapshot(replace(snapshot_size, rounds=options.pairs or snapshot_size.rounds)))
    if RESTORE in names and EMBEDDED in sources:
        restore_size = RESTORE_SMOKE if is_smoke else RESTORE_LARGE
        keys = (options.keys,) if options.keys else restore_size.keys
        keys += (LARGE_KEYS,) if options.large else ()
        results.append(run_restore(replace(restore_size, keys=keys, runs=options.pairs or restore_size.runs)))
    if PAST in names and EMBEDDED in sources:
        past = PAST_SMOKE if is_smoke else PAST_LARGE
        past = past if options.events is None else replace(past, events=up_to(options.events))
        results.append(run_past(replace(past, directory=options.logs)))
    return results


def _of_groups(
    size: Size, names: list[str], sources: list[str], options: argparse.Namespace
) -> list[AsyncIterator[Line]]:
    if FAILOVER not in names or KAFKA not in sources:
        return []
    failover = FAILOVER_SMOKE if size.events <= SMOKE.events else FAILOVER_LARGE
    failover = replace(failover, events=options.events or failover.events, runs=options.pairs or failover.runs)
    return [run_failover(failover)]


async def _streams(size: Size, sources: list[str]) -> AsyncIterator[DataResult | Figures]:
    """Commands on streams over RESP, and in the engine alone."""
    streams = STREAMS_SMOKE if size.events <= SMOKE.events else STREAMS_LARGE
    streams = replace(streams, rounds=min(streams.rounds, size.pairs))
    if EMBEDDED in sources:
        async for rates in run_rates(streams):
            yield rates
    if ENGINE in sources:
        for growth in run_growth(streams):
            yield growth


if __name__ == "__main__":
    main()
