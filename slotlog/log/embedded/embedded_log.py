"""The embedded log: one SQLite file, for one machine and no broker.

`slotlog.log.embedded.file.tables` has its tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar

from slotlog.clock import WALL
from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.embedded.claims import EmbeddedClaims
from slotlog.log.embedded.file import file as local_file
from slotlog.log.embedded.file.file import (
    IN_LOOP_SECONDS_MAX,
    Identity,
    in_thread,
    patiently,
    steadily,
    translated,
)
from slotlog.log.embedded.file.heads import head_of, trim
from slotlog.log.embedded.file.open_files import Files
from slotlog.log.embedded.file.times import first_at, set_time_back
from slotlog.log.embedded.file.upgrade import upgrade
from slotlog.log.embedded.pages.free_pages import copy_wal, give_back
from slotlog.log.embedded.pages.wal_room import ROOMY_CHECKPOINT_PAGES, WalRoom
from slotlog.log.embedded.proof.checks import check_settings, check_state, fingerprint_of
from slotlog.log.embedded.proof.mark import HeadMark
from slotlog.log.embedded.proof.mark_keeper import MarkKeeper
from slotlog.log.embedded.reader import EmbeddedReader
from slotlog.log.embedded.writer import GROUP_BYTES_MAX, GROUP_ROWS_MAX, Writer, append_in, append_rows, groups_of
from slotlog.log.log import Entry, LogRecord, RecordPosition, Scrubbed, check_entries

_SLICE_PAUSE_SECONDS: Final = 0.002  # as behind a bulk append: other processes wait for the lock

T = TypeVar("T")


class EmbeddedLog:
    """A log in the file `path`; see `slotlog.log.log.Log` for every method.

    Args:
        path: the SQLite file; `-wal` and `-shm` lie beside it while it is open, `-head` and `-owners` from then on.
        topic: its name, kept in the file.
        partitions: how many; kept in the file.
        create: whether `start` may make a new file.
    """

    def __init__(self, path: Path, *, topic: str, partitions: int, create: bool = True) -> None:
        self._path = path
        self._topic = topic
        self._partitions = partitions
        self._create = create
        self._claims = EmbeddedClaims(path)
        self._writer: Writer | None = None
        self._connection: sqlite3.Connection | None = None
        self._identity: Identity | None = None
        self._files: Files | None = None
        self._mark = HeadMark(path)
        self._mark_keeper: MarkKeeper | None = None
        self._wal_room: WalRoom | None = None
        self._readers: list[EmbeddedReader] = []
        self.append_counts = Appends()
        self.concerns: tuple[str, ...] = ()
        self.scrubbed = Scrubbed()
        self.retention_ms: int | None = None  # no record ages out of it; not part of `Log`

    @property
    def url(self) -> str:
        """`sqlite:///` and the path."""
        return f"sqlite:///{self._path}"

    @property
    def path(self) -> Path:
        """Its file. Not part of `Log`."""
        return self._path

    @property
    def topic(self) -> str:
        """Its name."""
        return self._topic

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return self._partitions

    async def start(self) -> None:
        """Open the file, or create it."""
        if self._create:
            local_file.make_directory(self._path.parent)
            self._mark.refuse_missing()
        await asyncio.to_thread(self._mark.refuse_behind)
        self._connection, identity = await steadily(self._open, self._path)
        self._identity = identity
        self._files = Files(self._path)
        self._writer = Writer(self._files, asyncio.get_running_loop(), self._wake_readers)
        self._writer.start()
        self._mark_keeper = MarkKeeper(self._mark, self._files, identity, self._query)
        self._wal_room = WalRoom(self._files, self.append_counts, self._room_made)

    async def _open(self) -> tuple[sqlite3.Connection, Identity]:
        connection = local_file.connect(self._path, create=self._create)
        try:
            return connection, await in_thread(self._prepare, connection)  # an upgrade may take minutes
        except BaseException:
            connection.close()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> Identity:
        """Make the tables, or hold those that are there against the settings, of whatever format they are."""
        try:
            if self._create and local_file.create_tables(connection, self._topic, self._partitions):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that they need no `-wal` to be there
            self._identity_at(connection)
            return upgrade(connection, self._path)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    async def close(self) -> None:
        """Write what is queued, then close the file."""
        self._claims.close()
        room, self._wal_room = self._wal_room, None
        if room is not None:
            await room.close()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.stop()
            await asyncio.to_thread(writer.join)
        keeper, self._mark_keeper = self._mark_keeper, None
        if keeper is not None:
            await keeper.close()
        for reader in list(self._readers):
            await reader.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """Append in groups of at most 1,000 rows, each atomic."""
        return await self.append_counts.measured(self._append(entries), entries)

    async def _append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        check_entries(entries, self._partitions)
        for entry in entries:
            if entry.time_ms is not None:
                WALL.refuse_ahead(entry.time_ms)
        writer = self._open_writer()
        positions: list[RecordPosition] = []
        for group in groups_of(entries):  # one after the other: none overtakes one that failed
            try:
                positions += await writer.submit(group)
            except Exception as error:
                if positions:
                    raise AppendUncertainError(f"{len(positions)} of {len(entries)} were appended: {error}") from error
                raise
        return positions

    def append_at_once(self, entries: Sequence[Entry]) -> list[RecordPosition] | None:
        """Append in the caller's thread, for an event loop that has nothing to do before it is done.

        Measured: a commit takes 0.4 ms of disk, and handing it to the writer's thread and back as long again, more when
        the loop is busy, as threads wait up to 5 ms for each other.
        """
        value_bytes = check_entries(entries, self._partitions)
        if value_bytes > GROUP_BYTES_MAX or len(entries) > GROUP_ROWS_MAX:
            return None
        connection = self._connection
        if connection is None or self._files is None:
            raise LogUnavailableError(f"the log {self._path} is closed")
        began = perf_counter()
        try:
            positions = append_in(connection, self._files, entries)
        except sqlite3.Error as error:
            failure = translated(error, self._path)
            self.append_counts.lost(failure, entries)
            raise failure from error
        except Exception as error:
            self.append_counts.lost(error, entries)
            raise
        if positions is not None:
            self.append_counts.done(positions, perf_counter() - began)
        return positions

    def disk_bytes(self) -> int:
        """Bytes of the file and of those beside it. Not part of `Log`."""
        files = [self._path.with_name(self._path.name + suffix) for suffix in ("", "-wal", "-shm", "-head")]
        return sum(file.stat().st_size for file in files if file.exists())

    @property
    def stored_bytes(self) -> int:
        """As `disk_bytes`."""
        return self.disk_bytes()

    async def measure(self) -> None:
        """Nothing to do: the files tell at any time."""

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a transaction of the writer's thread; its result is durable. Not part of `Log`."""
        result: T = await self._open_writer().submit((), work)
        return result

    def refuse_exchanged(self) -> None:
        """Look whether the files at the path are still those that are open. Not part of `Log`.

        Raises:
            LogMismatchError: they are not.
            LogUnavailableError: the log is not open.
        """
        if self._files is None:
            raise LogUnavailableError(f"the log {self._path} is closed")
        self._files.refuse_exchanged(self._connection)

    async def trim(self, partition: int, before_offset: int) -> int:
        """Delete the records of `partition` before `before_offset`. Not part of `Log`.

        In slices, between which others append. Later appends use the room, or `give_back_some` makes the file smaller.

        Returns:
            The offset that the partition now begins at.
        """
        begin = await self.begin_offset(partition)
        while (trimmed := await self.write(partial(trim, partition=partition, before_offset=before_offset))) > begin:
            begin = trimmed
            await asyncio.sleep(_SLICE_PAUSE_SECONDS)
        return begin

    async def give_back_some(self) -> int:
        """Make the file smaller by some of the room that trims left. Not part of `Log`.

        Returns:
            By how many bytes; 0: nothing more is given back.

        Raises:
            LogUnavailableError, LogMismatchError: the file cannot be written, or another lies there. It is whole.
        """
        given = await self.write(give_back)
        if not given:
            return 0
        if self._files is not None:  # a new connection would make a new `-wal` beside one that was deleted
            self._files.refuse_exchanged(self._connection)
        await in_thread(copy_wal, self._path)
        return given

    def reader(self, positions: Mapping[int, int]) -> EmbeddedReader:
        """A reader with a connection of its own."""
        assert self._identity is not None, "not started"
        reader = EmbeddedReader(self._path, self._identity.id, positions, self._readers.remove)
        self._readers.append(reader)
        return reader

    async def begin_offset(self, partition: int) -> int:
        """The first record's offset, or the end when there is none."""
        return (await self._asked(partial(head_of, partition=partition))).begin_offset

    async def end_offset(self, partition: int) -> int:
        """The next append's offset."""
        return (await self._asked(partial(head_of, partition=partition))).next_offset

    async def ends(self, partitions: Sequence[int], *, written: bool = False) -> dict[int, int]:
        """By a connection of its own: to start the log would upgrade an older file."""

        async def ask() -> dict[int, int]:
            with contextlib.closing(local_file.connect(self._path)) as connection:
                self._identity_at(connection)
                return {partition: head_of(connection, partition).next_offset for partition in partitions}

        return await steadily(ask, self._path)

    async def high_watermark(self, partition: int) -> int:
        """The end: there are no transactions."""
        return await self.end_offset(partition)

    async def offset_at(self, partition: int, time_ms: int) -> int | None:
        """By bisection."""
        return await self._asked(partial(first_at, partition=partition, time_ms=time_ms))

    async def set_time_back(self, partition: int, to_ms: int, entries: Sequence[Entry]) -> list[RecordPosition]:
        """By what the file says of its last record's time, in the same transaction."""

        def work(connection: sqlite3.Connection) -> list[RecordPosition]:
            set_time_back(connection, partition, to_ms)
            return append_rows(connection, entries)

        return await self.write(work)

    def fingerprint(self, partition: int, last: LogRecord) -> bytes:
        """The log's id and the record's mark."""
        assert self._identity is not None, "not started"
        return fingerprint_of(self._identity, last)

    async def check(self, partition: int, next_offset: int, fingerprint: bytes | None) -> None:
        """Read the file at the path anew: an open connection goes on reading one that was deleted."""
        if self._files is not None:  # a new connection would make a new `-wal` beside one that was deleted
            self._files.refuse_without_wal(self._connection)

        async def check() -> None:
            with contextlib.closing(local_file.connect(self._path)) as connection:
                await local_file.until_made(connection)
                identity = self._identity_at(connection)
                check_state(connection, self._path, identity, partition, (next_offset, fingerprint))

        try:
            await steadily(check, self._path)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Nothing to do: there are no lag tools for this log."""

    async def claims(self, owner: str, partitions: Sequence[int]) -> dict[int, list[str]] | None:
        """From locked files beside the log."""
        return self._claims.exchange(owner, partitions)

    def _identity_at(self, connection: sqlite3.Connection) -> Identity:
        """What the file says of itself, if it is of this topic and has so many partitions."""
        identity = local_file.read_identity(connection, self._path)
        check_settings(identity, self._path, self._topic, self._partitions)
        return identity

    def _room_made(self) -> None:
        """Let SQLite wait for more pages before it copies: by now the `-wal` and its index have room for them."""
        assert self._connection is not None, "not started"
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {ROOMY_CHECKPOINT_PAGES}")

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise RuntimeError(f"the log {self._path} is not open")
        return self._writer

    def _wake_readers(self) -> None:
        for reader in self._readers:
            reader.wake()

    async def _asked(self, query: Callable[[sqlite3.Connection], T]) -> T:
        async def ask() -> T:
            return self._query(query)

        return await steadily(ask, self._path)

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection
        if connection is None:
            raise RuntimeError(f"the log {self._path} is not open")
        try:
            return patiently(lambda: query(connection), IN_LOOP_SECONDS_MAX)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
