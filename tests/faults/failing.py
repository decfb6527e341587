"""A disk that fails for a moment: a preloaded library lets calls on some files fail with EIO."""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("failing.c")
_CONTROL: Final = struct.Struct("@qqqq16s256s")
_COUNTS: Final = struct.Struct("@qqqq")


class FailingDisk:
    """Which calls fail, in a program that is started with `environment`, and in those that come after it.

    Args:
        directory: for the library and the file by which the program is told.
    """

    def __init__(self, directory: Path) -> None:
        library, control = directory / "failing.so", directory / "failing.control"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, _SOURCE, "-ldl"], check=True
        )
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _CONTROL.size)
        self.environment = {"LD_PRELOAD": str(library), "FAIL_CONTROL": str(control)}

    def fail(self, kind: str, word: str, at: int, times: int) -> None:
        """From now on count calls; `times` of them fail from the `at`-th on, counted from 1.

        Args:
            kind: `read`, `write` or `sync`.
            word: a part of the paths that it is about.
            at: the first that fails.
            times: how many do.
        """
        self.calm()
        self._mapped[_COUNTS.size :] = struct.pack("@16s256s", kind.encode(), word.encode())
        self._mapped[: _COUNTS.size] = _COUNTS.pack(at, times, 0, 0)

    def calm(self) -> None:
        """Let no call fail any more."""
        self._mapped[:8] = bytes(8)

    @property
    def failed(self) -> int:
        """How many calls have failed since `fail`."""
        failed: int = _COUNTS.unpack_from(self._mapped)[3]
        return failed

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()
