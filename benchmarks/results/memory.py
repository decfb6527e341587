"""Writes the table of resident memory, beside what is aimed at and beside valkey-server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.results.tables import Results, table

_COLUMNS: Final = ("resident memory", "MB", "aim", "valkey-server", "load")


def memory(results: Results) -> str:
    """The lines of `benchmarks.resp.memory`; empty where a run has none."""
    if not (rows := list(_rows(results))):
        return ""
    return (
        "Resident memory of a service without a page, a MB being 1,000,000 bytes. The soak writes keys that live two\n"
        "seconds for more than a minute, with a block cache of 16 MiB.\n\n" + table(_COLUMNS, rows)
    )


def _rows(results: Results) -> Iterator[Sequence[str]]:
    if idle := results.get("memory_idle"):
        shown = f"filled with {idle['keys']:,} small keys"
        yield shown, f"{idle['filled_mb']:.1f}", "", f"{idle['valkey_filled_mb']:.1f}", ""
        shown = f"started again with {idle['keys']:,} small keys"
        yield shown, f"{idle['rss_mb']:.1f}", f"{idle['aim_mb']}", f"{idle['valkey_rss_mb']:.1f}", f"{idle['load']}"
    if soak := results.get("memory_soak"):
        shown = f"after a soak of {soak['written']:,} keys, highest meanwhile {soak['highest_mb']:.1f}"
        yield shown, f"{soak['rss_mb']:.1f}", f"{soak['aim_mb']}", "", f"{soak['load']}"
