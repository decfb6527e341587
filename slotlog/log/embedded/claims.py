"""Claims partitions of an embedded log: a locked file for each worker, in a folder beside the log.

The kernel lets go of a lock when its process ends, however that ends. So a file that can be locked is a dead worker's,
and is removed. A file is locked before it gets its name: nobody meets one that is not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from slotlog.log_lines import LineLogger

SUFFIX = "-owners"

logger = LineLogger(__name__)


class EmbeddedClaims:
    """The claim of one worker, and those of the others.

    Args:
        log: the file of the log.
    """

    def __init__(self, log: Path) -> None:
        self._folder = log.with_name(log.name + SUFFIX)
        self._path: Path | None = None
        self._file: int | None = None

    def exchange(self, owner: str, partitions: Sequence[int]) -> dict[int, list[str]] | None:
        """As `claim`; None, and a line in the log, when the folder cannot be used."""
        try:
            return self.claim(owner, partitions)
        except (OSError, ValueError) as error:
            logger.warning("claims_failed", folder=str(self._folder), error=str(error))
            return None

    def claim(self, owner: str, partitions: Sequence[int]) -> dict[int, list[str]]:
        """Say who owns what from now on, and tell what others say.

        Returns:
            The other owners by partition.

        Raises:
            OSError: the folder cannot be used.
        """
        if self._path is None or not self._path.exists():
            self._make(owner, partitions)
        found: dict[int, list[str]] = {}
        for path in sorted(self._folder.iterdir()):
            if path != self._path:
                for partition, other in _read(path):
                    found.setdefault(partition, []).append(other)
        return found

    def close(self) -> None:
        """Own nothing any more."""
        path, self._path = self._path, None
        file, self._file = self._file, None
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        if file is not None:
            os.close(file)

    def _make(self, owner: str, partitions: Sequence[int]) -> None:
        self.close()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{sha256(owner.encode()).hexdigest()[:32]}.json"
        hidden = path.with_suffix(".new")
        self._file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.write(self._file, json.dumps({"owner": owner, "partitions": list(partitions)}).encode())
        hidden.rename(path)
        self._path = path


def _read(path: Path) -> list[tuple[int, str]]:
    """Partition and owner of each claim in a file; none when its worker is gone."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # since it was listed
        return []
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim = json.loads(path.read_bytes() or b"{}") if path.suffix == ".json" else {}
        return [(int(partition), str(claim["owner"])) for partition in claim.get("partitions", ())]
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return []
    finally:
        os.close(file)
