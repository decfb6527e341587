"""Keeps what an import has left out, so that a second run can tell it as well.

The file is DIR/left-out.jsonl, a line of JSON for each. A second run goes on at a mark. What was left out behind that
mark is met once more, so only the lines before it are kept.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

from ops.config import ConfigError
from ops.importing.source import LeftOut


class LeftOutFile:
    """The file, open.

    Args:
        directory: of the import.
        size: bytes of the lines that an earlier run has left before its mark; the rest is dropped.

    Attributes:
        size: bytes of all lines.
    """

    def __init__(self, directory: Path, size: int) -> None:
        self._path = directory / "left-out.jsonl"
        self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        self.size = min(size, os.fstat(self._file.fileno()).st_size)
        self._file.truncate(self.size)
        self._file.seek(self.size)

    def earlier(self) -> Iterator[LeftOut]:
        """All that is in it. Nothing is added meanwhile.

        Raises:
            ConfigError: it is damaged.
        """
        self._file.seek(0)
        try:
            for line in self._file:
                db, name, what, reason = json.loads(line)
                yield LeftOut(db, b64decode(name), what, reason)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{self._path} is not what an import writes: remove {self._path.parent} to import from the start"
            ) from error

    def add(self, left_out: Iterable[LeftOut]) -> None:
        """Write these lines; `flush` gives them to the system."""
        for db, name, what, reason in left_out:
            self.size += self._file.write(json.dumps([db, b64encode(name).decode(), what, reason]).encode() + b"\n")

    def flush(self) -> None:
        """Give the lines to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
