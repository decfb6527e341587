"""Remembers on disk what each key of a server was when it was carried over.

A SQLite file with a row for each key: 16 bytes of a hash of its value, when it dies, and the last pass that met it.
It also has the run id of the server that the last pass has read.

A row is written after its key is in the log. Until then it is kept in memory, as many as wait for one or two appends.
Before a key may be in the log its row says that it is in doubt. Else who ends in between would take a key for gone, or
for what it was before, of which the log has something newer.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from ops.importing.source import SourceError

_RUN_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS server (run_id TEXT NOT NULL)"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS keys (
    db INTEGER NOT NULL, name BLOB NOT NULL, digest BLOB NOT NULL, expire_ms INTEGER NOT NULL, pass INTEGER NOT NULL,
    PRIMARY KEY (db, name)
) WITHOUT ROWID
"""
_KEEP: Final = "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)"
_FORGET: Final = "DELETE FROM keys WHERE db = ? AND name = ?"
_PAGE: Final = 500

LEFT_OUT: Final = b"left out"
"""The digest of what could not be carried over."""

TORN: Final = b"torn"
"""The digest of a key that changed while it was read."""

DOUBT: Final = b"doubt"
"""The digest of a key of which something may be in the log since its row was written."""


class Seen(NamedTuple):
    """The value and life of a key when it was carried over."""

    digest: bytes
    expire_ms: int


class _Given(NamedTuple):
    """What was given away and is not known to be in the log yet; `seen` is None for a deletion."""

    db: int
    name: bytes
    seen: Seen | None
    number: int


class Ledger:
    """The keys that were carried over.

    Args:
        path: the file; None: a temporary one, for a dry run.

    Attributes:
        number: of the pass that runs.

    Raises:
        SourceError: the file is no such ledger, or cannot be used; so do all methods.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._waiting: deque[_Given] = deque()
        self._newest: dict[tuple[int, bytes], _Given] = {}
        self._begun: list[tuple[int, bytes]] = []
        # An empty name is a temporary database on disk. Calls come from one thread at a time.
        with self._errors():
            self._file = sqlite3.connect(path or "", check_same_thread=False, isolation_level=None)
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
                self._file.execute("PRAGMA synchronous = NORMAL")
                self._file.execute(_SCHEMA)
                self._file.execute(_RUN_SCHEMA)
                (newest,) = self._file.execute("SELECT max(pass) FROM keys").fetchone()
            except sqlite3.Error:
                self._file.close()
                raise
        self.number = int(newest or 0)

    def begin_pass(self) -> None:
        """What is met from now on was met in a new pass."""
        self.number += 1

    @property
    def run_id(self) -> str:
        """Of the server as the last pass has met it; empty before the first."""
        rows = self._rows("SELECT run_id FROM server", ())
        return str(rows[0][0]) if rows else ""

    def met_server(self, run_id: str) -> None:
        """The pass that begins reads the server of this run id."""
        self._write(("DELETE FROM server", [()]), ("INSERT INTO server VALUES (?)", [(run_id,)]))

    def lasting_keys(self) -> dict[int, int]:
        """By database, how many keys were carried over that have no time to live; only databases with any."""
        counts = "SELECT db, count(*) FROM keys WHERE expire_ms = 0 AND digest != ? GROUP BY db"
        return dict(self._rows(counts, (LEFT_OUT,)))

    def look(self, db: int, names: Sequence[bytes]) -> dict[bytes, Seen]:
        """Those of the keys that are known."""
        marks = ",".join("?" * len(names))
        rows = self._rows(
            f"SELECT name, digest, expire_ms FROM keys WHERE db = ? AND name IN ({marks})",  # noqa: S608 - no values
            (db, *names),
        )
        found = {name: Seen(digest, expire_ms) for name, digest, expire_ms in rows}
        for name in names:
            if (given := self._newest.get((db, name))) is not None:
                found.pop(name, None)
                if given.seen is not None:
                    found[name] = given.seen
        return found

    def met(self, db: int, names: Iterable[bytes]) -> None:
        """These are as they were."""
        rows = [(self.number, db, name) for name in names]
        if rows:
            self._write(("UPDATE keys SET pass = ? WHERE db = ? AND name = ?", rows))

    def keep(self, db: int, name: bytes, seen: Seen) -> None:
        """Write at once what is not about an event."""
        self._write((_KEEP, [(db, name, *seen, self.number)]))

    def forget(self, db: int, names: Iterable[bytes]) -> None:
        """These are gone here and there."""
        self._write((_FORGET, [(db, name) for name in names]))

    def begin(self, db: int, name: bytes) -> None:
        """The first event of a key is given away."""
        self._begun.append((db, name))

    def doubt(self) -> None:
        """What was begun may be in the log from now on. This outlives the loss of power, too, as the log does."""
        if not self._begun:
            return
        rows = [(db, name, DOUBT, 0, self.number) for db, name in self._begun]
        self._begun.clear()
        with self._errors():
            self._file.execute("PRAGMA synchronous = FULL")
        self._write((_KEEP, rows))
        with self._errors():
            self._file.execute("PRAGMA synchronous = NORMAL")

    def given(self, db: int, name: bytes, seen: Seen | None) -> None:
        """The last event of a key was given away, to be appended; None: its deletion."""
        given = _Given(db, name, seen, self.number)
        self._waiting.append(given)
        self._newest[db, name] = given

    def appended(self, keys: int) -> None:
        """The next `keys` that were given away are in the log."""
        kept, gone = [], []
        for _ in range(keys):
            given = self._waiting.popleft()
            if self._newest[given.db, given.name] is not given:
                continue  # a newer one is on its way
            del self._newest[given.db, given.name]
            if given.seen is None:
                gone.append((given.db, given.name))
            else:
                kept.append((given.db, given.name, *given.seen, given.number))
        self._write((_KEEP, kept), (_FORGET, gone))

    def unmet(self) -> Iterator[tuple[int, list[bytes]]]:
        """Database and names of the keys that this pass has not met, some at a time."""
        db, name = -1, b""
        while rows := self._rows(
            "SELECT db, name FROM keys WHERE (db, name) > (?, ?) AND pass < ? ORDER BY db, name LIMIT ?",
            (db, name, self.number, _PAGE),
        ):
            db, name = rows[-1]
            yield from _by_database(row for row in rows if row not in self._newest)
        waiting = [given for given in self._newest.values() if given.number < self.number and given.seen is not None]
        yield from _by_database((given.db, given.name) for given in waiting)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        with self._errors():
            return self._file.execute(statement, values).fetchall()

    def _write(self, *changes: tuple[str, Sequence[tuple[object, ...]]]) -> None:
        """All of them or, after an error, none."""
        with self._errors(), self._file:
            self._file.execute("BEGIN")
            for statement, rows in changes:
                self._file.executemany(statement, rows)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what SQLite raises into sentences."""
        where = self._path or "the temporary file of the dry run"
        try:
            yield
        except sqlite3.OperationalError as error:  # of the disk, or of rights
            room = ": make room" if error.sqlite_errorcode == sqlite3.SQLITE_FULL else ""
            raise SourceError(f"{where} cannot be used: {error}{room}") from error
        except sqlite3.DatabaseError as error:
            raise SourceError(f"{where} is damaged ({error}): remove its directory to import from the start") from error


def _by_database(rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    names = defaultdict(list)
    for db, name in rows:
        names[db].append(name)
    yield from names.items()
