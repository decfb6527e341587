"""RocksDB's own warnings and errors as log lines of this process.

RocksDB writes them to a file LOG beside its data and tells nobody else: of a compaction that met a damaged block there
is a number elsewhere (`rocksdb.background-errors`), and the reason there alone.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Final

import structlog

_POLL_SECONDS: Final = 5.0
_LINES_MAX: Final = 10  # of one partition and round: a disk that fails says the same thousands of times
_BYTES_MAX: Final = 1024 * 1024  # of one partition and round
_TEXT_MAX: Final = 500
# 2026/11/22-02:32:49.683840 140425044035264 [WARN] [db/error_handler.cc:393] Background IO error …
_SERIOUS: Final = re.compile(rb"^\S+ \S+ \[(WARN|ERROR|FATAL)\] (?:\[[^\]]*\] ?)?(.*)$", re.MULTILINE)

logger = structlog.get_logger(__name__)


class RocksdbLogs:
    """The LOG files of some partitions, each read from where the last look ended.

    Args:
        directories: RocksDB directory by partition; one need not be there yet.
    """

    def __init__(self, directories: Mapping[int, Path]) -> None:
        self._directories = directories
        self._open: dict[int, BufferedReader] = {}

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self.look()

    def look(self) -> None:
        """Log what was added since the last look."""
        for partition, directory in self._directories.items():
            try:
                self._read(partition, directory / "LOG")
            except OSError as error:
                logger.warning("rocksdb_log_unreadable", partition=partition, error=str(error))

    def close(self) -> None:
        """Look once more, then let go of the files."""
        self.look()
        for file in self._open.values():
            file.close()
        self._open = {}

    def _read(self, partition: int, path: Path) -> None:
        file = self._open.get(partition)
        if file is not None:
            self._report(partition, file)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return
            file.close()  # RocksDB begins a new file when it opens, and when this one is large
            del self._open[partition]
        if path.exists():
            file = self._open[partition] = path.open("rb")
            self._report(partition, file)

    def _report(self, partition: int, file: BufferedReader) -> None:
        start = file.tell()
        data = file.read(_BYTES_MAX)
        whole = len(data) if len(data) == _BYTES_MAX else data.rfind(b"\n") + 1
        file.seek(start + whole)
        found = _SERIOUS.findall(data[:whole])
        for level, text in found[:_LINES_MAX]:
            log = logger.warning if level == b"WARN" else logger.error
            log("rocksdb", partition=partition, text=text.decode(errors="backslashreplace")[:_TEXT_MAX])
        if len(found) > _LINES_MAX:
            logger.warning("rocksdb", partition=partition, text=f"{len(found) - _LINES_MAX} lines more in {file.name}")
