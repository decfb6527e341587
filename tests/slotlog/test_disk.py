"""Files, and the names in directories, that are brought to disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slotlog.disk import sync


def test_a_file_and_a_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is opened, synced itself, not what lies beside it, and closed, even when the disk refuses."""
    file = tmp_path / "log"
    file.write_bytes(b"records")
    synced: list[tuple[int, int]] = []
    opened: list[int] = []

    def fsync(descriptor: int) -> None:
        opened.append(descriptor)
        found = os.fstat(descriptor)
        synced.append((found.st_dev, found.st_ino))
        if len(synced) > 2:
            raise OSError

    monkeypatch.setattr(os, "fsync", fsync)

    sync(file)
    sync(tmp_path)
    with pytest.raises(OSError, match=r"^$"):
        sync(file)

    wanted = [(found.st_dev, found.st_ino) for found in (file.stat(), tmp_path.stat(), file.stat())]
    assert wanted == synced
    for descriptor in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
