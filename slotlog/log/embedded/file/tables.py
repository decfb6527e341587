"""The tables of the embedded log's file, as they are defined and as they are found.

    log          one row: format 3, a random id of 16 bytes, topic, number of partitions
    partitions   partition -> next_offset, last_time_ms, link of the last record, and begin_offset, begin_link of the
                 record before that; apart from the records, as they outlive a full trim
    records      partition << 48 | offset -> time_ms, key, value, seal (`slotlog.log.embedded.file.chain`)
    dead_letters (topic, partition, offset) -> time_ms, key, value, headers, reason
    redriven     (topic, partition, offset) -> time_ms, to_partition, to_offset; made by the first question about dead
                 letters (`ingest.dead_letters.finding`)
    set_backs    made when a partition's time is first set back (`slotlog.log.embedded.file.times`)
    upgrade      partition -> the first offset without a seal, only while a log of an older format is made one of this

Rows of `log`, `partitions`, `dead_letters`, `redriven` and `set_backs` have a checksum over their other columns
(`sum`). The tables' definitions are held against those that are written here, word by word. Format 1 had neither seals,
links nor sums; format 2 had these tables, with longer seals (`slotlog.log.embedded.file.format_2`).
"""

from __future__ import annotations

import sqlite3
from typing import Final

LOG: Final = "CREATE TABLE log (format INTEGER, id BLOB, topic TEXT, partitions INTEGER, sum BLOB)"
PARTITIONS: Final = (
    "CREATE TABLE partitions (partition INTEGER PRIMARY KEY, next_offset INTEGER, last_time_ms INTEGER, "
    "begin_offset INTEGER, begin_link BLOB, link BLOB, sum BLOB)"
)
RECORDS: Final = (
    "CREATE TABLE records (position INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, key BLOB, value BLOB NOT NULL, "
    "seal BLOB)"
)
DEAD_LETTERS: Final = (
    "CREATE TABLE dead_letters ( topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, "
    "time_ms INTEGER NOT NULL, reason TEXT NOT NULL, key BLOB, value BLOB, headers BLOB NOT NULL, sum BLOB, "
    "PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID"
)
UPGRADE: Final = "CREATE TABLE upgrade (partition INTEGER PRIMARY KEY, next_offset INTEGER)"
SET_BACKS: Final = (
    "CREATE TABLE IF NOT EXISTS set_backs ( partition INTEGER NOT NULL, offset INTEGER NOT NULL, sum BLOB, "
    "PRIMARY KEY (partition, offset)) WITHOUT ROWID"
)
REDRIVEN: Final = """
    CREATE TABLE IF NOT EXISTS redriven (
        topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, time_ms INTEGER NOT NULL,
        to_partition INTEGER NOT NULL, to_offset INTEGER NOT NULL, sum BLOB,
        PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID
"""
REDRIVEN_TRIGGER: Final = """
    CREATE TRIGGER IF NOT EXISTS redriven_with_its_letter AFTER DELETE ON dead_letters BEGIN
        DELETE FROM redriven WHERE topic = OLD.topic AND partition = OLD.partition AND offset = OLD.offset;
    END
"""

_FORMAT_1_LOG: Final = (
    "CREATE TABLE log (format INTEGER NOT NULL, id BLOB NOT NULL, topic TEXT NOT NULL, partitions INTEGER NOT NULL)"
)


def _in_one_line(sql: str) -> str:
    return " ".join(str(sql).split()).replace(" IF NOT EXISTS", "", 1)


TABLES: Final = {
    _in_one_line(sql).split()[2]: _in_one_line(sql)
    for sql in (LOG, PARTITIONS, RECORDS, DEAD_LETTERS, UPGRADE, SET_BACKS, REDRIVEN, REDRIVEN_TRIGGER)
}
REQUIRED: Final = {"log", "partitions", "records", "dead_letters"}


def tables_of(connection: sqlite3.Connection) -> dict[str, str]:
    """The definition of each table and trigger, in one line."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return {name: _in_one_line(sql) for name, sql in rows}


def is_set_backs_of_2(definition: str) -> bool:
    """Whether this is the table `set_backs` as format 2 made it at first, without sums."""
    return definition == TABLES["set_backs"].replace(", sum BLOB", "")


def is_format_1(tables: dict[str, str]) -> bool:
    """Whether these are the tables of format 1, word by word where it differs."""
    return tables.get("log") == _FORMAT_1_LOG and tables.get("records") == RECORDS.replace(", seal BLOB", "")
