"""Opens the RocksDB directory of another program, read-only and without a trace in it.

RocksDB is given links to the files of the database, in a directory of their own. So nothing is made, changed or locked
in it, and it may be in use: what was written until now is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from engine.errors import CorruptionError
from engine.store.plain import PlainReader
from engine.store.read_only import open_while_written
from ops.state.opening.manifest import refuse_cut_manifest

CURRENT: Final = "CURRENT"
"""The file of a database that names its tables."""

_IDENTITY: Final = "IDENTITY"
_DIGEST_BYTES: Final = 16
_MEND: Final = "bring it back from a backup, or let its own program repair it"
_READ: Final = (CURRENT, "MANIFEST-*", "*.sst", "*.blob", "*.log")
"""What RocksDB reads of a database. The rest it would only write: its own log, its lock, its options."""


@contextmanager
def opened_by_links(database: Path, writer: str) -> Iterator[PlainReader]:
    """The database as of this moment. `writer` is the program that should have written it, for messages.

    Raises:
        CorruptionError: it is damaged, or of a RocksDB that is too new.
        OSError: a file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="slotlog-import-") as links:
        reader = open_while_written(
            lambda: _open(database, Path(links), writer), lambda: {log.name for log in database.glob("*.log")}
        )
        try:
            yield reader
        finally:
            reader.close()


def identity_of(database: Path, reader: PlainReader) -> str:
    """What makes a database the same one, with the same records: its name for RocksDB, and its last write.

    A database that was written to since is another source, as keys in front of the mark may be new.
    """
    return f"{_name_of(database)} at {reader.sequence_number()}"


def _name_of(database: Path) -> str:
    """By what RocksDB knows the database; written when it was made, and never again.

    A checkpoint, such as a backup of Kvrocks, has no such file until it is opened for writing. Until then its list of
    tables does not change either.
    """
    try:
        return (database / _IDENTITY).read_text(errors="replace").strip()
    except FileNotFoundError:
        manifest = (database / CURRENT).read_text(errors="replace").strip()
        return blake2b((database / manifest).read_bytes(), digest_size=_DIGEST_BYTES).hexdigest()


def _open(database: Path, links: Path, writer: str) -> PlainReader:
    for old in links.iterdir():
        old.unlink()
    for pattern in _READ:
        for file in database.glob(pattern):
            (links / file.name).symlink_to(file)
    refuse_cut_manifest(database, _MEND)
    try:
        return PlainReader(links)
    except CorruptionError as error:
        raise CorruptionError(
            f"{database} cannot be opened: it is damaged, of a newer format, or not of {writer} ({error})"
        ) from error
