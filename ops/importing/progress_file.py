"""Keeps how far an import is, so that a second run goes on there.

The file is DIR/progress.json: {"source", "log", "topic", "mark", "keys", "offsets": {partition: last offset},
"left_out_bytes"}. It is written after the appends that it tells of. When it is lost, or older than the log, keys come
into the log once more: the first event of each replaces what is there, so the state is the same. `left_out_bytes` is
how much of DIR/left-out.jsonl was left out before the mark.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

from ops.config import ConfigError
from ops.importing.left_out_file import LeftOutFile
from ops.importing.source import LeftOut
from slotlog.log import Log, RecordPosition

_WRITE_SECONDS: Final = 1.0


class ProgressFile:
    """The progress of one import into one log. Used in a `with` block; nobody else may use it meanwhile.

    Attributes:
        mark: where to go on; None: at the start.
        keys: that are in the log.

    Raises:
        ConfigError: another import uses the directory, or it is of another source or log.
    """

    def __init__(self, directory: Path, source: str, log_url: str, topic: str) -> None:
        self._path = directory / "progress.json"
        self._of = {"source": source, "log": log_url, "topic": topic}
        self._offsets: dict[int, int] = {}
        self.mark: str | None = None
        self.keys = 0
        self._left_out_bytes = 0
        self._written = 0.0
        self._lock = _locked(directory)
        try:
            self._load()
            self._left_out = LeftOutFile(directory, self._left_out_bytes)
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._offsets or self._left_out_bytes:
            self._write()
        self._left_out.close()
        os.close(self._lock)

    def left_out(self) -> Iterator[LeftOut]:
        """What earlier runs have left out, and this one will not meet. To be asked before anything is noted.

        Raises:
            ConfigError: the file of it is damaged.
        """
        return self._left_out.earlier()

    def note(self, positions: Iterable[RecordPosition], keys: int) -> None:
        """So many more keys are in the log, and these are the records of the last append."""
        for partition, offset, _ in positions:
            self._offsets[partition] = offset
        self.keys += keys

    def note_left_out(self, left_out: Sequence[LeftOut], mark: str | None, before_mark: int) -> None:
        """All keys up to `mark` are dealt with, and these were left out, so many of them before it.

        Without a mark, the last one stands.
        """
        self._left_out.add(left_out[:before_mark])
        if mark is not None:
            self.mark = mark
            self._left_out_bytes = self._left_out.size
        self._left_out.add(left_out[before_mark:])
        if monotonic() - self._written >= _WRITE_SECONDS:
            self._write()

    async def check(self, log: Log) -> None:
        """Refuse a log that does not have what an earlier run has appended: it would be without those keys.

        Raises:
            ConfigError: it was recreated or cut. LogUnavailableError: it cannot be told.
        """
        for partition, offset in sorted(self._offsets.items()):
            if await log.high_watermark(partition) <= offset:  # an open transaction may stand before them
                raise ConfigError(
                    f"{self._path.parent}: an earlier run came to offset {offset} of partition {partition}, and the log"
                    f" at {log.url} ends before: it is another log now. Remove that directory to import from the start"
                )

    def _load(self) -> None:
        try:
            kept: dict[str, Any] = json.loads(self._path.read_bytes())
            of = {name: kept[name] for name in self._of}
            self.mark, self.keys = kept["mark"], int(kept["keys"])
            self._left_out_bytes = int(kept.get("left_out_bytes", 0))
            self._offsets = {int(partition): int(offset) for partition, offset in kept["offsets"].items()}
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self._path} is not what an import writes: remove {self._path.parent} to import from the start"
            ) from error
        if of != self._of:
            raise ConfigError(
                f"{self._path.parent} is of an import of {of['source']} into {of['topic']} at {of['log']}: name another"
                " directory with --progress"
            )

    def _write(self) -> None:
        self._left_out.flush()
        kept = {"mark": self.mark, "keys": self.keys, "offsets": self._offsets, "left_out_bytes": self._left_out_bytes}
        text = json.dumps({**self._of, **kept})
        new = self._path.with_suffix(".new")
        new.write_text(text + "\n")
        new.replace(self._path)
        self._written = monotonic()


def make_private(directory: Path) -> None:
    """Make a directory, readable by its owner alone; so are those above it that are missing, such as the state's own.

    Raises:
        OSError: it cannot be made, or is a file.
    """
    missing = [above for above in directory.parents if not above.exists()]
    for each in (*reversed(missing), directory):
        each.mkdir(mode=0o700, exist_ok=True)


def _locked(directory: Path) -> int:
    """A descriptor that holds the lock of `directory`, which is made."""
    make_private(directory)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ConfigError(f"another import uses {directory}: let it end, or name another with --progress") from None
    return lock
