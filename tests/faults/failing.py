"""Disks by preloaded libraries: one whose calls fail for a moment, and one that keeps what was synced."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_CONTROL: Final = struct.Struct("@qqqqqq16s256s")
_COUNTS: Final = struct.Struct("@qqqqqq")
_LEFT_AT: Final = _COUNTS.size - 8
FOR_EVER: Final = 1 << 40


class FailingDisk:
    """Which calls fail, in a program that is started with `environment`, and in those that come after it.

    Args:
        directory: for the library and the file by which the program is told.
    """

    def __init__(self, directory: Path) -> None:
        library, control = built("failing.c", directory), directory / "failing.control"
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _CONTROL.size)
        self.environment = {"LD_PRELOAD": str(library), "FAIL_CONTROL": str(control)}

    def fail(self, kind: str, word: str, at: int, times: int, error: int = EIO) -> None:
        """From now on count calls; `times` of them fail from the `at`-th on, counted from 1.

        Args:
            kind: `read`, `write` or `sync`.
            word: a part of the paths that it is about.
            at: the first that fails.
            times: how many do.
            error: what they fail with.
        """
        self.calm()
        self._mapped[_COUNTS.size :] = struct.pack("@16s256s", kind.encode(), word.encode())
        self._mapped[: _COUNTS.size] = _COUNTS.pack(at, times, 0, 0, error, 0)

    def fill(self, word: str, left_bytes: int) -> None:
        """From now on file systems say that so much is left; 0: nothing can be written to paths with that word."""
        self.fail("write", word, 1 if left_bytes == 0 else FOR_EVER, FOR_EVER, ENOSPC)
        self._mapped[_LEFT_AT : _COUNTS.size] = struct.pack("@q", left_bytes + 1)

    def calm(self) -> None:
        """Let no call fail any more."""
        self._mapped[:8] = bytes(8)
        self._mapped[_LEFT_AT : _COUNTS.size] = bytes(8)

    @property
    def failed(self) -> int:
        """How many calls have failed since `fail`."""
        failed: int = _COUNTS.unpack_from(self._mapped)[3]
        return failed

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()


class LossyDisk:
    """A disk that keeps of some files what was synced, in a program that is started with `environment`.

    Args:
        directory: for the library and the copies.
        word: a part of the paths that it is about; their last parts differ.
    """

    def __init__(self, directory: Path, word: str) -> None:
        self._kept = directory / "kept"
        self._kept.mkdir()
        self._word = word
        library = built("keeping.c", directory)
        self.environment = {"LD_PRELOAD": str(library), "KEEP_WORD": word, "KEEP_IN": str(self._kept)}

    def lose_power(self, data: Path) -> None:
        """Of each of these files that is in `data` leave what was synced; what was deleted by now stays deleted."""
        for path in filter(Path.is_file, data.glob(f"{self._word}*")):
            path.unlink()
            if (kept := self._kept / path.name).exists():
                shutil.copy(kept, data)


def built(source: str, directory: Path) -> Path:
    """Compile one of the libraries here; where it is."""
    library = (directory / source).with_suffix(".so")
    words = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(library),
        str(_HERE / source),
        "-ldl",
    ]
    subprocess.run(words, check=True)
    return library
