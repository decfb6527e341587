"""An acknowledged append of the embedded log is durable, and a failed commit says so."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from slotlog.errors import AppendUncertainError
from slotlog.log import Entry
from slotlog.log.embedded import writer
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.file.file import connect
from tests.slotlog.log.reading import append, read_values

FULL = 2


class FailingCommit:
    """A connection whose commits fail, before or after they are on disk."""

    def __init__(self, connection: sqlite3.Connection, *, is_durable: bool) -> None:
        self._connection = connection
        self._is_durable = is_durable

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """As the connection does it, but for COMMIT."""
        if statement == "COMMIT":
            if self._is_durable:
                self._connection.execute(statement)
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _modes(connection: sqlite3.Connection) -> tuple[str, int]:
    return (
        connection.execute("PRAGMA journal_mode").fetchone()[0],
        connection.execute("PRAGMA synchronous").fetchone()[0],
    )


async def test_commits_are_synced(local_log: EmbeddedLog) -> None:
    """Both connections that append, in the loop and by the thread, sync the `-wal` before a commit can be seen."""
    assert local_log._connection is not None

    assert ("wal", FULL) == _modes(local_log._connection)
    assert ("wal", FULL) == await local_log.write(_modes)


@pytest.mark.parametrize("is_durable", [True, False])
async def test_a_commit_that_fails(local_log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, is_durable: bool) -> None:
    """Nobody can tell whether it is on disk: the append is uncertain, in both ways of appending; later ones go on."""
    said = "failed while it wrote: disk I/O error"
    opened: list[FailingCommit] = []

    def failing(path: Path) -> FailingCommit:
        opened.append(FailingCommit(connect(path), is_durable=is_durable))
        return opened[-1]

    with monkeypatch.context() as patched:
        patched.setattr(writer, "connect", failing)
        with pytest.raises(AppendUncertainError, match=said):
            await append(local_log, b"by the thread")
    assert 1 == len(opened)
    with monkeypatch.context() as patched:
        patched.setattr(local_log, "_connection", FailingCommit(local_log._connection, is_durable=is_durable))  # type: ignore[arg-type]
        with pytest.raises(AppendUncertainError, match=said):
            local_log.append_at_once([Entry(0, b"", b"in the loop")])
    counts = local_log.append_counts
    await append(local_log, b"later")

    assert (2, 0) == (counts.uncertain, counts.failed)
    expected = [b"by the thread", b"in the loop", b"later"] if is_durable else [b"later"]
    assert expected == await read_values(local_log, len(expected))
