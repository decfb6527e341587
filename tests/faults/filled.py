"""Disks that can be filled to the last byte: a small file system, or one that a preloaded library plays."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from typing import Final, Protocol

from tests.faults.failing import FailingDisk

_SIZE_BYTES: Final = 384 << 20
_CHUNK_BYTES: Final = 1 << 20


class FilledDisk(Protocol):
    """A disk that is full from `fill` to `make_room`.

    Attributes:
        directory: on it.
        environment: of the programs that use it.
    """

    directory: Path
    environment: dict[str, str]

    def fill(self, left_bytes: int) -> None:
        """Let there be no more room than this."""

    def make_room(self) -> None:
        """Let there be room again."""


class PreloadedDisk:
    """Calls that need room fail in programs that are started with its environment."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "filled"
        self.directory.mkdir()
        self._failing = FailingDisk(home)
        self.environment = self._failing.environment

    def fill(self, left_bytes: int) -> None:
        """Let it say so; without any room every write to its files fails."""
        self._failing.fill(f"{self.directory}/", left_bytes)

    def make_room(self) -> None:
        """Let no write fail."""
        self._failing.calm()


class MountedDisk:
    """A file system in memory, with a file that takes what others leave."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "mounted"
        self.directory.mkdir()
        self.environment: dict[str, str] = {}
        self._filling = self.directory / "filling"

    def fill(self, left_bytes: int) -> None:
        """Write until nothing more goes in: parts of pages, too; and give back what is to be left."""
        with self._filling.open("ab", buffering=0) as file:
            size = _CHUNK_BYTES
            while size:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    if error.errno != ENOSPC:
                        raise
                    size //= 2
            file.truncate(file.tell() - left_bytes)

    def make_room(self) -> None:
        """Remove that file."""
        with suppress(FileNotFoundError):
            self._filling.unlink()


@contextmanager
def preloaded(home: Path) -> Iterator[FilledDisk]:
    """One for any user."""
    yield PreloadedDisk(home)


@contextmanager
def mounted(home: Path) -> Iterator[FilledDisk]:
    """One for whoever may mount."""
    disk = MountedDisk(home)
    options = f"size={_SIZE_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk.directory)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk.directory)], check=True)


def may_mount() -> bool:
    """Whether this process may mount a file system."""
    if os.geteuid() != 0:
        return False
    capabilities = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
    )
    return bool(int(capabilities.split()[1], 16) >> 21 & 1)  # CAP_SYS_ADMIN


DISKS: Final = {"preloaded": preloaded, **({"mounted": mounted} if may_mount() else {})}
"""Those that this user can have."""
