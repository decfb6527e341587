"""Upgrades the embedded log from format 1 or 2 to format 3, in place.

Format 1 had no checksums, format 2 had others. Which one it is says the table `log`.

The tables change in one transaction, from which on no older slotlog appends any
more. Then the records get their seals, in slices that are transactions of their own: an upgrade that is killed goes on
at the next opening, and nobody appends before it is done. A seal vouches for what is there now: what was damaged in
format 1 is not known; a record that is not what its seal of format 2 says gets none, and counts as damaged.

The table `upgrade` has for each partition how far it has come, and, as partition -1, the format that it came from.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from time import monotonic
from typing import Any, Final

from slotlog.errors import LogDamagedError
from slotlog.log.embedded.file.chain import LINK_BYTES, OFFSET_BITS, OFFSET_MASK, root, seals_of, sum_of
from slotlog.log.embedded.file.file import FORMAT, Identity, patiently, read_identity, translated
from slotlog.log.embedded.file.format_2 import was_sealed
from slotlog.log.embedded.file.heads import Head, head_of, insert_head, set_head
from slotlog.log.embedded.file.tables import LOG, PARTITIONS, UPGRADE, is_format_1, is_set_backs_of_2, tables_of
from slotlog.log_lines import LineLogger

_SLICE_ROWS: Final = 1000
_SLICE_BYTES: Final = 4 * 1024 * 1024
_TELL_SECONDS: Final = 5.0
_CAME_FROM: Final = -1
_PLACE: Final = "SELECT next_offset FROM upgrade WHERE partition = ?"

logger = LineLogger(__name__)


def upgrade(connection: sqlite3.Connection, path: Path) -> Identity:
    """Make the log one of this format, if it is not, and finish what was begun. Gives its identity.

    Raises:
        LogUnavailableError, LogDamagedError, LogMismatchError: it cannot be; what was done stands.
    """
    try:
        identity = read_identity(connection, path)
        if identity.format != FORMAT:
            logger.info("log_upgrade_begins", log=str(path), from_format=identity.format, to_format=FORMAT)
            _in_transaction(connection, _change_tables, path)
            identity = read_identity(connection, path)
        if "upgrade" in patiently(lambda: tables_of(connection)):
            _seal_all(connection, identity, path)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    return identity


def _in_transaction(connection: sqlite3.Connection, work: Any, *arguments: Any) -> Any:
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        result = work(connection, *arguments)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return result


def _change_tables(connection: sqlite3.Connection, path: Path) -> None:
    old = read_identity(connection, path)
    if old.format == FORMAT:
        return  # somebody else was faster
    tables = tables_of(connection)
    came_from = 1 if "upgrade" in tables else old.format  # an upgrade from 1 that was never finished left some seals
    connection.execute("DROP TABLE IF EXISTS upgrade")
    connection.execute(UPGRADE)
    connection.execute("INSERT INTO upgrade VALUES (?, ?)", (_CAME_FROM, came_from))
    if is_format_1(tables):
        _change_from_1(connection, old)
    else:
        _change_from_2(connection, old, tables)
    identity = old._replace(format=FORMAT)
    connection.execute("DELETE FROM log")
    connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", (*identity, sum_of(*identity)))


def _change_from_2(connection: sqlite3.Connection, old: Identity, tables: dict[str, str]) -> None:
    for partition in range(old.partitions):
        try:
            head = head_of(connection, partition)
        except LogDamagedError:  # it stays so, and is named by whoever wants something of that partition
            continue
        link = root(old.id, partition)
        set_head(connection, partition, head._replace(begin_link=link, link=link))
        connection.execute("INSERT INTO upgrade VALUES (?, ?)", (partition, head.begin_offset))
    if is_set_backs_of_2(tables.get("set_backs", "")):
        connection.create_function("sum_of", -1, sum_of, deterministic=True)
        connection.execute("ALTER TABLE set_backs ADD COLUMN sum BLOB")
        connection.execute("UPDATE set_backs SET sum = sum_of(partition, offset)")


def _change_from_1(connection: sqlite3.Connection, old: Identity) -> None:
    heads = connection.execute("SELECT partition, next_offset, last_time_ms FROM partitions").fetchall()
    for table, definition in (("log", LOG), ("partitions", PARTITIONS)):
        connection.execute(f"DROP TABLE {table}")
        connection.execute(definition)
    for partition, next_offset, last_time_ms in heads:
        begin = _begin_offset(connection, partition, next_offset)
        link = root(old.id, partition)
        insert_head(connection, partition, Head(next_offset, last_time_ms, begin, link, link))
        connection.execute("INSERT INTO upgrade VALUES (?, ?)", (partition, begin))
    connection.execute("ALTER TABLE records ADD COLUMN seal BLOB")
    connection.execute("ALTER TABLE dead_letters ADD COLUMN sum BLOB")
    connection.create_function("sum_of", -1, sum_of, deterministic=True)
    connection.execute(
        "UPDATE dead_letters SET sum = sum_of(topic, partition, offset, time_ms, reason, key, value, headers)"
    )
    if "redriven" in tables_of(connection):
        connection.execute("ALTER TABLE redriven ADD COLUMN sum BLOB")
        connection.execute(
            "UPDATE redriven SET sum = sum_of(topic, partition, offset, time_ms, to_partition, to_offset)"
        )


def _begin_offset(connection: sqlite3.Connection, partition: int, next_offset: int) -> int:
    first = partition << OFFSET_BITS
    begin = connection.execute(
        "SELECT min(position) FROM records WHERE position >= ? AND position < ?", (first, first + (1 << OFFSET_BITS))
    ).fetchone()[0]
    return next_offset if begin is None else begin & OFFSET_MASK


def _seal_all(connection: sqlite3.Connection, identity: Identity, path: Path) -> None:
    tell_at = monotonic() + _TELL_SECONDS
    for partition in range(identity.partitions):
        while _in_transaction(connection, _seal_some, partition):
            if monotonic() > tell_at:
                tell_at = monotonic() + _TELL_SECONDS
                done = connection.execute(_PLACE, (partition,)).fetchone()
                end = head_of(connection, partition).next_offset
                logger.info("log_upgrading", partition=partition, done_offset=done and done[0], end_offset=end)
    _in_transaction(connection, lambda each: each.execute("DROP TABLE IF EXISTS upgrade"))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    logger.info("log_upgraded", log=str(path), format=FORMAT)


def _seal_some(connection: sqlite3.Connection, partition: int) -> bool:
    """Seal the next records of a partition. Whether there may be more."""
    if "upgrade" not in tables_of(connection):
        return False  # somebody else has finished it
    place = connection.execute(_PLACE, (partition,)).fetchone()
    if place is None:
        return False  # nobody knows how far it reaches
    came_from = connection.execute(_PLACE, (_CAME_FROM,)).fetchone()[0]
    head = head_of(connection, partition)
    first, link = partition << OFFSET_BITS, head.link
    seals: list[tuple[bytearray | None, int]] = []
    size = 0
    for row in connection.execute(
        "SELECT position, time_ms, key, value, seal FROM records WHERE position >= ? AND position < ? "
        "ORDER BY position LIMIT ?",
        (first + place[0], first + (1 << OFFSET_BITS), _SLICE_ROWS),
    ):
        position, time_ms, key, value, _ = row
        if _is_good(row, came_from):
            (seal,) = seals_of(link, [(position & OFFSET_MASK, time_ms, key, value)])
            seals.append((seal, position))
            link = bytes(seal[LINK_BYTES:])
            size += len(value)
        else:  # without a seal it counts as damaged from now on
            seals.append((None, position))
        if size > _SLICE_BYTES:
            break
    if not seals:
        return False
    connection.executemany("UPDATE records SET seal = ? WHERE position = ?", seals)
    connection.execute(
        "UPDATE upgrade SET next_offset = ? WHERE partition = ?", ((seals[-1][1] & OFFSET_MASK) + 1, partition)
    )
    set_head(connection, partition, head._replace(link=link))
    return True


def _is_good(row: tuple[Any, ...], came_from: int) -> bool:
    """Whether a row is a record, and is what its seal says, where it has one."""
    _, time_ms, key, value, seal = row
    if seal is None and came_from == 1:
        return isinstance(time_ms, int) and isinstance(key, bytes | None) and isinstance(value, bytes)
    return was_sealed(*row)
