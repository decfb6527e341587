"""Words counts and sizes for messages."""

from __future__ import annotations

from typing import Final

_KIB: Final = 1024


def counted(number: int, noun: str) -> str:
    """`1 key`, `2 keys`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sized(size: float) -> str:
    """A number of bytes as people read it: `1 byte`, `900 bytes`, `1.5 KiB`, `12.0 MiB`."""
    if size < _KIB:
        return counted(round(size), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        size /= _KIB
        if size < _KIB:
            return f"{size:.1f} {unit}"
    return f"{size / _KIB:,.1f} TiB"
