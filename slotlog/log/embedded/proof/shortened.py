"""Opens an embedded log whose file has lost its end, to look at what is left of it.

SQLite says of such a file that it is malformed, whatever is asked of it: the file says in its header how many pages it
has, and has fewer. With `writable_schema` it reads those that are there.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from slotlog.log.embedded.file.file import as_text
from slotlog.log.embedded.proof.scan import Damage
from slotlog.wording import counted

_HEADER_BYTES: Final = 32
_PAGE_BYTES: Final = slice(16, 18)  # big-endian
_PAGES: Final = slice(28, 32)  # big-endian


def shortened(path: Path) -> Damage | None:
    """What is missing at the end of a file, by its own header; None where nothing is, or no header says it."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    page_bytes, pages = (int.from_bytes(header[part], "big") for part in (_PAGE_BYTES, _PAGES))
    size, expected = path.stat().st_size, page_bytes * pages
    if len(header) < _HEADER_BYTES or size >= expected:
        return None
    return Damage("file", f"it has {counted(size, 'byte')}, and says that it had {expected}: its end is missing")


def connect_shortened(path: Path) -> sqlite3.Connection:
    """A connection that reads what is left, and cannot write.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = as_text
    connection.execute("PRAGMA writable_schema = ON")
    return connection
