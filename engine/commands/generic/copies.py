"""COPY, RENAME and MOVE: a key gets another name or database. Source: https://valkey.io/commands/#generic.

A string of up to 128 KiB is one record: O(1). Of a longer one and of a collection all records are written anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills
from engine.commands.keyspace_events import replaced
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import DB_OUT_OF_RANGE, NO_SUCH_KEY, SAME_OBJECT, SYNTAX, CommandError
from engine.types.generic import copies
from engine.values.replies import OK, Reply
from slotlog.shared.limits import DATABASES

_C_INT_MIN: Final = -(2**31)
_C_INT_MAX: Final = 2**31 - 1


@command(
    "RENAME key newkey",
    group="generic",
    since="1.0.0",
    complexity="O(n): every record has the key's name in it",
    write=True,
    access="RW access delete, OW update",
    fills=fills.renamed,
    notifies=replaced(b"rename_from", b"rename_to"),
)
def rename(tx: Transaction, args: list[bytes]) -> Reply:
    """Rename a key, and replace the key that has the new name; the time to live is kept. O(elements).

    > SET a "1"
    OK
    > RENAME a b
    OK
    > GET b
    "1"
    > RENAME a b
    (error) ERR no such key
    """
    source = _source(tx, args[0])
    if args[0] != args[1]:
        copies.copy(tx, source, args[1])
        tx.delete(source)
    return OK


@command(
    "RENAMENX key newkey",
    group="generic",
    since="1.0.0",
    complexity="O(n): every record has the key's name in it",
    write=True,
    fast=True,
    access="RW access delete, OW insert",
    fills=fills.renamed,
    notifies=replaced(b"rename_from", b"rename_to"),
)
def renamenx(tx: Transaction, args: list[bytes]) -> Reply:
    """Rename a key if no key has the new name. Returns 1, or 0 when it was not renamed. O(elements).

    > MSET a "1" b "2"
    OK
    > RENAMENX a b
    (integer) 0
    > RENAMENX a c
    (integer) 1
    """
    source = _source(tx, args[0])
    if tx.find(args[1]) is not None:
        return 0
    copies.copy(tx, source, args[1])
    tx.delete(source)
    return 1


def _source(tx: Transaction, name: bytes) -> Key:
    key = tx.find(name)
    if key is None:
        raise CommandError(NO_SUCH_KEY)
    return key


def _databases_of_copy(args: list[bytes]) -> list[bytes]:
    return [args[at + 1] for at in range(2, len(args) - 1) if args[at].upper() == b"DB"]


def _refusal_of_another_database(args: list[bytes]) -> str:
    named = any(arg.upper() == b"DB" for arg in args[2:])
    return "ERR Copying to another database is not allowed in cluster mode" if named else ""


@command(
    "COPY source destination [DB destination-db] [REPLACE]",
    group="generic",
    since="6.2.0",
    complexity="O(n)",
    write=True,
    grows=True,
    access="RO access, OW update",
    databases=_databases_of_copy,
    cluster_refusal=_refusal_of_another_database,
    fills=fills.copied,
    notifies=replaced(b"", b"copy_to"),
)
def copy(tx: Transaction, args: list[bytes]) -> Reply:
    """Copy a key's content and time to live to another key. Returns 1, or 0 when that key exists.

    With REPLACE it takes the place of what is there; DB names another database. O(elements).

    > SET a "1"
    OK
    > COPY a b
    (integer) 1
    > COPY a b
    (integer) 0
    > COPY a b REPLACE
    (integer) 1
    """
    options = _parse_options(args[2:], tx.db)
    if options.db == tx.db and args[0] == args[1]:
        raise CommandError(SAME_OBJECT)
    source = tx.find(args[0])
    if source is None:
        return 0
    return int(_copy_to(tx, source, args[1], options))


@command(
    "MOVE key db",
    group="generic",
    since="1.0.0",
    complexity="O(n): every record has the database in it",
    write=True,
    standalone=True,
    fast=True,
    access="RW access update",
    databases=lambda args: args[1:2],
    fills=fills.moved_to_database,
    notifies=replaced(b"move_from", b"move_to"),
)
def move(tx: Transaction, args: list[bytes]) -> Reply:
    """Move a key to another database. Returns 1, or 0 when that database has a key of its name. O(elements).

    > SET a "1"
    OK
    > MOVE a 1
    (integer) 1
    > EXISTS a
    (integer) 0
    > MOVE a 0
    (error) ERR source and destination objects are the same
    """
    db = _parse_db(args[1])
    if db == tx.db:
        raise CommandError(SAME_OBJECT)
    source = tx.find(args[0])
    if source is None or not _copy_to(tx, source, args[0], _Options(db, replace=False)):
        return 0
    tx.delete(source)
    return 1


class _Options(NamedTuple):
    """Where the copy goes, and whether in the place of another key."""

    db: int
    replace: bool


def _copy_to(tx: Transaction, source: Key, name: bytes, options: _Options) -> bool:
    """Whether it was copied; the selected database stays what it was."""
    before = tx.db
    tx.select(options.db)
    is_free = tx.find(name) is None
    if is_free or options.replace:
        copies.copy(tx, source, name)
    tx.select(before)
    return is_free or options.replace


def _parse_options(words: list[bytes], db: int) -> _Options:
    replace = False
    at = 0
    while at < len(words):
        option = read_option(words[at])
        if option == b"REPLACE":
            replace = True
        elif option == b"DB" and at + 1 < len(words):
            at += 1
            db = _parse_db(words[at])
        else:
            raise CommandError(SYNTAX)
        at += 1
    return _Options(db, replace)


def _parse_db(text: bytes) -> int:
    db = read_integer(text)
    if not _C_INT_MIN <= db <= _C_INT_MAX:
        message = f"ERR value is out of range, value must between {_C_INT_MIN} and {_C_INT_MAX}"
        raise CommandError(message)
    if not 0 <= db < DATABASES:
        raise CommandError(DB_OUT_OF_RANGE)
    return db
