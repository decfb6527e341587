"""Files, and the names in directories, that are brought to disk; what is made for the owner alone."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE

import pytest

from slotlog.disk import make_directory, make_file, sync


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


def test_directories_are_for_their_owner(tmp_path: Path) -> None:
    """Each directory that is made is 700; one that is there keeps its mode, and a file is no directory."""
    tmp_path.chmod(0o755)
    make_directory(tmp_path / "a" / "b")
    (tmp_path / "a").chmod(0o750)
    make_directory(tmp_path / "a" / "b" / "c")
    (tmp_path / "file").touch()

    found = [tmp_path / "a" / "b" / "c", tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    assert [0o700, 0o700, 0o750, 0o755] == [S_IMODE(path.stat().st_mode) for path in found]
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_directory(tmp_path / "file" / "in it")


def test_files_are_for_their_owner(tmp_path: Path) -> None:
    """A file that is made is empty and 600; one that is there keeps what it holds, and its mode."""
    there = tmp_path / "there"
    there.write_bytes(b"1")
    there.chmod(0o644)
    make_file(there)
    make_file(tmp_path / "new")

    found = [(path.read_bytes(), S_IMODE(path.stat().st_mode)) for path in (there, tmp_path / "new")]
    assert [(b"1", 0o644), (b"", 0o600)] == found
    with pytest.raises(FileNotFoundError):
        make_file(tmp_path / "nowhere" / "new")
