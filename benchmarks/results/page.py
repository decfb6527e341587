"""Writes the figures of a run as Markdown, for the top of docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.applying.stages import STAGES
from benchmarks.results.figures import panels_of
from benchmarks.results.memory import memory
from benchmarks.results.sizes import sizes
from benchmarks.results.tables import Results, table

NO_RUN: Final = (
    "No run of the present code is kept. `make bench BENCH_ARGS='--results docs/performance.jsonl'` keeps one, and\n"
    "`make docs` then draws its chart here.\n"
)
_LEGEND: Final = (
    "In brackets is slotlog's rate by theirs, the median of the pairs. The floor is the cost of the work without an\n"
    "engine, see below. valkey-server has `appendfsync always`. The load generator takes its part of the same cores.\n"
)
_EVENTS: Final = ("benchmark", "events/s", "beside/s", "ratio", "ratio by CPU time", "load")
_REQUESTS: Final = (
    *("command, depth", "log", "requests/s", "of `always`", "of `everysec`"),
    *("p50 ms", "p99 ms", "CPU µs", "load"),
)
_SINGLE: Final = (
    *("command", "p50 ms: slotlog, floor, valkey", "p99 ms", "ratio", "of the floor"),
    *("CPU µs: slotlog, floor, valkey", "load"),
)
_REPLAYS: Final = ("replay", "events/s", "floor/s", "ratio", "two/s", "of one", "whole/s", "whole, two/s", "load")
_RESTORES: Final = ("keys", "MB", "restore s", "replay s", "of it", "a key, of the fewest", "snapshot s", "load")
_SNAPSHOTS: Final = (
    *("snapshot, keys", "MB", "MB uploaded, 1 % changed", "in each round", "pause ms, longest"),
    *("longest SET ms", "usual", "load"),
)
_MB: Final = 1_000_000
_BESIDE: Final = {
    "quix_hset": ", beside Quix Streams",
    "quix_hset_two": ", beside Quix Streams in one process",
}
_SOURCES: Final = ("engine", "embedded", "kafka")


def part(results: Results, chart: str) -> str:
    """The chart, and a table for each kind of line that a run may have.

    Args:
        results: by their names.
        chart: where the page finds it.
    """
    if not panels_of(results):
        return NO_RUN
    texts = [f"![Rates of slotlog and of what stands beside it]({chart})\n", _origin(results)]
    if rows := _events(results):
        texts.append(table(_EVENTS, rows))
    if rows := _python_alone(results):
        texts.append("The same in Python alone (`SLOTLOG_NATIVE=false`):\n")
        texts.append(table(_EVENTS, rows))
    if rows := _stages(results):
        texts.append("CPU time of an event on RocksDB, in µs, in Python alone and with what is compiled:\n")
        texts.append(table(("events", "build", *STAGES, "sum"), rows))
    if rows := _requests(results):
        texts.append("p99, and CPU time a request of the server's process, stand beside those of valkey-server.\n")
        texts.append(table(_REQUESTS, rows))
    if rows := _single(results):
        texts.append(
            "One write at a time from each of 50 clients. The floor is an event loop and one `fdatasync` for a group,\n"
            "without any state; ratios are to valkey-server's p99.\n"
        )
        texts.append(table(_SINGLE, rows))
    if rows := _replays(results):
        texts.append(
            "A replay of one partition in one process, and of two in two; *whole* is with start, flush and digest.\n"
        )
        texts.append(table(_REPLAYS, rows))
    if rows := _restores(results):
        texts.append(table(_RESTORES, rows))
    if rows := _snapshots(results):
        texts.append(table(_SNAPSHOTS, rows))
    if rows := _processes(results):
        texts.append(table(("two processes beside one", "one/s", "two/s", "ratio", "ms an append", "load"), rows))
    texts += [text for text in (sizes(results), memory(results)) if text]
    return "\n".join(texts)


def _origin(results: Results) -> str:
    """Where and when, and what the ratios are."""
    run = results.get("run", {})
    said = [f"{run[name]}" for name in ("date",) if name in run]
    said += [f"CPython {run['python']}"] if "python" in run else []
    said += [f"{name} {run[name]}" for name in ("rocksdict", "aiokafka") if name in run]
    said += [f"{run['cores']} cores"] if "cores" in run else []
    loads = [result["load"] for result in results.values() if "load" in result]
    said += [f"load {min(loads):g} to {max(loads):g}"] if loads else []
    return f"Measured: {', '.join(said)}.\n\n{_LEGEND}"


def _events(results: Results) -> list[Sequence[str]]:
    return [
        _event_row(name, result)
        for name, result in results.items()
        if "floor_per_second" in result
        and not name.startswith("replay_")
        and (name.startswith("quix") or name.rpartition("_")[2] in _SOURCES)
    ]


def _python_alone(results: Results) -> list[Sequence[str]]:
    return [
        _event_row(name.removesuffix("_python"), result)
        for name, result in results.items()
        if "floor_per_second" in result and name.endswith("_python")
    ]


def _event_row(name: str, result: dict[str, Any]) -> Sequence[str]:
    return (
        f"`{name}`" + _BESIDE.get(name, ""),
        f"{result['per_second']:,}",
        f"{result['floor_per_second']:,}",
        f"{result['ratio']:.2f} ({min(result['ratios']):.2f} to {max(result['ratios']):.2f})",
        f"{result['cpu_ratio']:.2f}" if "cpu_ratio" in result else "",
        f"{result.get('load', '')}",
    )


def _stages(results: Results) -> list[Sequence[str]]:
    return [
        (
            result["name"].split("_")[1],
            "compiled" if result["compiled"] else "Python",
            *(f"{result[f'{stage}_us']:.2f}" for stage in (*STAGES, "sum")),
        )
        for name, result in results.items()
        if name.startswith("stages_")
    ]


def _requests(results: Results) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for name, result in results.items():
        if name.startswith("resp_"):
            command, depth, log = name.split("_")[1:]
            rows.append(
                (
                    f"{command.upper()}, {depth}",
                    log,
                    f"{result['per_second']:,}",
                    f"{result['always_ratio']:.2f}",
                    f"{result['everysec_ratio']:.2f}",
                    f"{result['p50_ms']:.1f}",
                    f"{result['p99_ms']:.1f}, {result['always_p99_ms']:.1f}",
                    f"{result['cpu_us']:.1f}, {result['always_cpu_us']:.1f}",
                    f"{result['load']}",
                )
            )
    return rows


def _single(results: Results) -> list[Sequence[str]]:
    def all_three(result: dict[str, Any], field: str) -> str:
        return ", ".join(f"{result[prefix + field]:.1f}" for prefix in ("", "floor_", "valkey_"))

    return [
        (
            name.partition("_")[2].upper(),
            all_three(result, "p50_ms"),
            all_three(result, "p99_ms"),
            f"{result['p99_ratio']:.2f}",
            f"{result['floor_p99_ratio']:.2f}",
            all_three(result, "cpu_us"),
            f"{result['load']}",
        )
        for name, result in results.items()
        if name.startswith("single_")
    ]


def _processes(results: Results) -> list[Sequence[str]]:
    return [
        (
            f"`{name}`",
            f"{result['per_second']:,}",
            f"{result['two_per_second']:,}",
            f"{result['two_ratio']:.2f} ({min(result['ratios']):.2f} to {max(result['ratios']):.2f})",
            f"{result['append_ms']}, {result['two_append_ms']}" if "append_ms" in result else "",
            f"{result['load']}",
        )
        for name, result in results.items()
        if name.startswith("processes_")
    ]


def _replays(results: Results) -> list[Sequence[str]]:
    return [
        (
            f"`{name}`",
            f"{result['per_second']:,}",
            f"{result['floor_per_second']:,}",
            f"{result['ratio']:.2f} ({min(result['ratios']):.2f} to {max(result['ratios']):.2f})",
            f"{result['two_per_second']:,}",
            f"{result['two_ratio']:.2f}",
            f"{result['whole_per_second']:,}",
            f"{result['two_whole_per_second']:,}",
            f"{result['load']}",
        )
        for name, result in results.items()
        if name.startswith("replay_")
    ]


def _restores(results: Results) -> list[Sequence[str]]:
    return [
        (
            f"{result['keys']:,}",
            f"{result['bytes'] / _MB:.0f}",
            f"{result['restore_s']:.2f}",
            f"{result['replay_s']:.1f}",
            f"{result['ratio']:.0f}",
            f"{result['growth']:.2f}",
            f"{result['snapshot_s']:.1f}",
            f"{result['load']}",
        )
        for name, result in results.items()
        if name.startswith("restore_")
    ]


def _snapshots(results: Results) -> list[Sequence[str]]:
    return [
        (
            f"{result['keys']:,}",
            f"{result['bytes'] / _MB:.0f}",
            f"{result['new_bytes'] / _MB:.1f}",
            ", ".join(f"{size / _MB:.1f}" for size in result["rounds_new_bytes"]),
            f"{result['pause_ms']}, {result['pause_ms_max']}",
            f"{result['longest_ms']}",
            f"{result['usual_longest_ms']}",
            f"{result['load']}",
        )
        for name, result in results.items()
        if name == "snapshot"
    ]
