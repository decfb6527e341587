"""Joins what several processes answer at `/metrics` to one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ops.metrics import CATALOG

LABEL: Final = "process"
"""The label that tells the series of the processes apart: its number."""

_OF_ALL: Final = frozenset(metric.name for metric in CATALOG if metric.of_all)
_READY: Final = "slotlog_ready"


def joined(texts: Mapping[int, bytes | None]) -> bytes:
    """One text, in which each series is labelled with the number of its process.

    What is the same for all of them, such as the room on the disk, is there once, without that label. A process that
    does not answer is not ready.

    Args:
        texts: by the number of the process, as `Readings.text` makes them; None: it does not answer.
    """
    families: dict[str, list[str]] = {}
    for number, text in texts.items():
        if text is None:
            continue
        for block in text.decode().split("# HELP ")[1:]:
            name = block.partition(" ")[0]
            family = families.setdefault(name, [])
            lines = block.splitlines(keepends=True)
            if not family:
                family += [f"# HELP {lines[0]}", lines[1]]
            elif name in _OF_ALL:
                continue
            family += lines[2:] if name in _OF_ALL else [_labelled(line, number) for line in lines[2:]]
    away = [number for number, text in texts.items() if text is None]
    ready = families.setdefault(_READY, [])
    ready += [f'{_READY}{{{LABEL}="{number}"}} 0\n' for number in away]
    return "".join(line for family in families.values() for line in family).encode()


def _labelled(line: str, number: int) -> str:
    """A sample with one more label, before the others."""
    head, _, value = line.rpartition(" ")
    name, brace, labels = head.partition("{")
    return f'{name}{{{LABEL}="{number}"{"," + labels if brace else "}"} {value}'
