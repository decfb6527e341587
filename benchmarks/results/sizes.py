"""Writes tables of commands on large values: how their time grows with the members, and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from benchmarks.results.tables import Results, table

_NAMES: Final = {
    "zrank": "ZRANK",
    "zrange": "ZRANGE of ten in the middle",
    "zcount": "ZCOUNT",
    "zlimit": "ZRANGEBYSCORE … LIMIT",
    "zadd": "ZADD",
    "hget": "HGET",
    "hset": "HSET",
    "zpopmin": "ZPOPMIN",
    "hgetall": "HGETALL of all",
    "lrange": "LRANGE of all",
    "sinter": "SINTER of two",
    "setbit": "SETBIT of any bit",
    "copy": "COPY of the hash",
    "sunionstore": "SUNIONSTORE of two",
    "sort": "SORT … BY … LIMIT",
    "pfcount": "PFCOUNT",
    "bitop": "BITOP NOT",
}
_ENGINE: Final = "engine"
_FLOOR: Final = "floor"
_MS: Final = 1000


def sizes(results: Results) -> str:
    """The tables of `benchmarks.resp.data`, as far as a run has its lines; empty where it has none."""
    texts = []
    if rows := list(_growth(results)):
        members = [f"{size:,} members" for size in _members(results)]
        texts.append(
            "The engine alone, in µs a command, and the growth by the fewest members. *Floor*: RocksDB by itself is\n"
            "asked for the same records.\n"
        )
        texts.append(table(("engine alone", *members, "growth"), rows))
    if rows := list(_growth_over_resp(results)):
        members = [f"{size:,}" for size in sorted({size for _, size in _sized(results)})]
        texts.append(
            "Over RESP by 16, one client: CPU time of a command in µs by members or fields, and the growth of CPU\n"
            "time and of time. *valkey*: valkey-server with `appendfsync always`, in turn with it.\n"
        )
        texts.append(table(("by 16", *members, "growth", "of time"), rows))
    if rows := list(_beside(results)):
        texts.append(
            "Over RESP beside valkey-server with `appendfsync always`, by one client, in µs; in brackets CPU time:\n"
        )
        texts.append(table(("command", "size", "by 1: slotlog", "valkey", "by 16: slotlog", "valkey", "rate"), rows))
    return "\n".join(texts)


def _of(results: Results, who: str) -> dict[tuple[str, int], dict[str, Any]]:
    """The lines of one kind by command and size: `data_zrank_1000_engine`, `data_zrank_1000_16_embedded`."""
    found = {}
    for name, result in results.items():
        if name.startswith("data_") and name.endswith(f"_{who}"):
            kind, size = name.removeprefix("data_").removesuffix(f"_{who}").split("_")[:2]
            found[kind, int(size)] = result
    return found


def _members(results: Results) -> list[int]:
    """The sizes of what has several of them."""
    return sorted({size for (_, size), result in _of(results, _ENGINE).items() if "growth" in result})


def _growth(results: Results) -> Iterator[Sequence[str]]:
    sizes, ours, floors = _members(results), _of(results, _ENGINE), _of(results, _FLOOR)
    for kind, shown in _NAMES.items():
        for name, lines in ((shown, ours), (f"{shown}, floor", floors)):
            if sizes and all("growth" in lines.get((kind, size), {}) for size in sizes):
                last = lines[kind, sizes[-1]]["growth"]
                yield name, *(f"{lines[kind, size]['us']:.1f}" for size in sizes), f"{last:.2f}"


def _sized(results: Results) -> dict[tuple[str, int], dict[str, Any]]:
    return {kind: line for kind, line in _of(results, "16_embedded").items() if "growth" in line}


def _growth_over_resp(results: Results) -> Iterator[Sequence[str]]:
    found = _sized(results)
    for kind, shown in _NAMES.items():
        lines = [found[kind, size] for _, size in sorted(each for each in found if each[0] == kind)]
        for name, prefix in ((shown, ""), (f"{shown}, valkey", "valkey_")) if lines else ():
            growths = [f"{lines[-1][f'{prefix}{growth}']:.2f}" for growth in ("cpu_growth", "growth")]
            yield name, *(f"{line[f'{prefix}cpu_us']:.1f}" for line in lines), *growths


def _beside(results: Results) -> Iterator[Sequence[str]]:
    one, many = _of(results, "1_embedded"), _of(results, "16_embedded")
    for kind, shown in _NAMES.items():
        for (name, size), result in one.items():
            if name == kind:
                piped = many.get((kind, size))
                last = result if piped is None else piped
                by_many = ("", "") if piped is None else (_cost(piped, ""), _cost(piped, "valkey_"))
                yield shown, f"{size:,}", _cost(result, ""), _cost(result, "valkey_"), *by_many, f"{last['ratio']:.2f}"


def _cost(result: dict[str, Any], prefix: str) -> str:
    us, cpu_us = result[f"{prefix}us"], result[f"{prefix}cpu_us"]
    if us >= 10 * _MS:
        return f"{us / _MS:.0f} ms ({cpu_us / _MS:.0f})"
    return f"{us:,.0f} ({cpu_us:,.0f})" if us >= _MS / 100 else f"{us:.1f} ({cpu_us:.1f})"
