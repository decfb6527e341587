"""A wall clock that is wrong, by a preloaded library."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

from tests.faults.failing import built

_SHIFT: Final = struct.Struct("@q")


class ShiftedClock:
    """The wall clock of programs that are started with `environment`; it is right until it is set.

    Args:
        directory: for the library and the file by which programs are told.
    """

    def __init__(self, directory: Path) -> None:
        library, control = built("shifting.c", directory), directory / "shifting.control"
        control.write_bytes(bytes(_SHIFT.size))
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _SHIFT.size)
        self.environment = {"LD_PRELOAD": str(library), "SHIFT_CONTROL": str(control)}

    def set(self, shift_ms: int) -> None:
        """From now on it is ahead by so much, or behind (below zero)."""
        self._mapped[:] = _SHIFT.pack(shift_ms)

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()
