"""Prints the lines of the benchmark `layouts` as the tables of docs/performance.md.

make bench BENCH_ARGS='--only layouts' | python -m benchmarks.layouts.table
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

KINDS = ("writes", "reads", "counts")
HEAD = ("layout", "writes/s", "reads/s", "counts/s", "bytes a key")


def tables(lines: Iterable[str]) -> Iterator[str]:
    """A table for each stream, in Markdown; other lines are passed over."""
    streams: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line.startswith("{") and (result := json.loads(line))["name"].startswith("layouts_"):
            streams.setdefault(result["name"].split("_")[1], []).append(result)
    for stream, results in streams.items():
        first = results[0]
        yield f"`{stream}`: {first['events']:,} events, {first['keys']:,} keys, {first['rounds']} rounds"
        yield ""
        yield f"| {' | '.join(HEAD)} |"
        yield "|---" * len(HEAD) + "|"
        for result in results:
            rates = (
                f"{result[f'{kind}_per_second']:,} ({result[f'{kind}_ratio']})"
                for kind in ("writes", "reads", "counts")
            )
            yield f"| `{result['name'].split('_', 2)[2]}` | {' | '.join(rates)} | {result['bytes_per_key']:,} |"
        yield ""


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in tables(sys.stdin))
