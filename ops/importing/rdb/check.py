"""Walks over a whole RDB file before anything of it is imported: what is damaged is known first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from engine.values.rdb.errors import FormatError, TooLargeError
from engine.values.rdb.parts import NOT_SUPPORTED, parts
from engine.values.rdb.skip import MODULE, skip_module
from ops.importing.key_events import too_large
from ops.importing.rdb.file_reader import CutError, FileReader
from ops.importing.rdb.records import End, KeyRecord, Other, RdbError, read_header, records
from ops.progress import Advance

_PROGRESS_RECORDS: Final = 1000


@dataclass(slots=True)
class Checked:
    """The results of a walk over the whole file.

    Attributes:
        version: of RDB.
        checksum: of all that is before it, also where the file states none.
        first: the position of the first record.
        databases: those that have keys.
        others: what stands beside the keys, in their order.
        too_large: why a key cannot be events, by the position of its record.
    """

    version: int
    first: int
    checksum: int = 0
    databases: set[int] = field(default_factory=set)
    others: list[Other] = field(default_factory=list)
    too_large: dict[int, str] = field(default_factory=dict)


def check(path: Path, file: BinaryIO, size: int, advance: Advance) -> Checked:
    """Read every record and value once.

    Args:
        path: for messages.
        file: what is read.
        size: of it.
        advance: told how many bytes are dealt with.

    Raises:
        RdbError: it is no RDB file, or one that is damaged, or too new.
    """
    reader = FileReader(file, size, summed=True)
    version = read_header(path, reader)
    checked = Checked(version, reader.position)
    with refused(path, reader):
        for number, record in enumerate(records(reader, version)):
            if number % _PROGRESS_RECORDS == 0:
                advance(reader.position)
            if isinstance(record, Other):
                checked.others.append(record)
            elif isinstance(record, End):
                checked.checksum = record.checksum or 0
            else:
                checked.databases.add(record.db)
                _check_value(record, reader, checked)
    advance(size)
    return checked


@contextmanager
def refused(path: Path, reader: FileReader) -> Iterator[None]:
    """Let what is wrong with the bytes name the file and the place."""
    try:
        yield
    except CutError as error:
        raise RdbError(
            f"{path} is cut short: {error} at byte {reader.position + reader.left()}, in the middle of something."
            " Copy it again, or save it anew; nothing was imported"
        ) from error
    except TooLargeError as error:
        raise RdbError(
            f"{path}: {error} for one packed piece, before byte {reader.position}. Lower the server's"
            " *-max-listpack-entries and save again; nothing was imported"
        ) from error
    except (FormatError, RdbError) as error:
        raise RdbError(
            f"{path} is damaged, or of a server that is not known: {error}, before byte {reader.position}. Copy it"
            " again, or look at it with redis-check-rdb; nothing was imported"
        ) from error


def skip(record: KeyRecord, reader: FileReader) -> str:
    """Go past a value that is not supported. Returns what it is, such as `module value of json`.

    Raises:
        FormatError: it is none. RdbError: nobody knows where it ends.
    """
    if record.kind == MODULE:
        return f"module value of {skip_module(reader)}"
    raise RdbError("a value of a module of a candidate of Redis 4, whose end only that module knows")


def _check_value(record: KeyRecord, reader: FileReader, checked: Checked) -> None:
    if record.kind in NOT_SUPPORTED:
        skip(record, reader)
        return
    for part in parts(record.kind, checked.version, reader):
        if record.position not in checked.too_large and (reason := too_large(record.name, part)):
            checked.too_large[record.position] = reason
