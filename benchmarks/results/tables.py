"""Writes tables in Markdown, of the results that pages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Results = dict[str, dict[str, Any]]
"""The lines of a run, by their names."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table, with a line's end behind each row."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
