"""The first line of a library: `#!lua name=mylib`.

Source: https://valkey.io/topics/functions-intro/; error texts as redis-server 7.0 has them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from engine.errors import CommandError
from engine.values.inline import split_inline

ENGINE: Final = b"LUA"
_NAME: Final = re.compile(rb"[A-Za-z0-9_]+")
_NAME_OPTION: Final = b"name="
_BAD_LINE: Final = "ERR Invalid library metadata"
_BAD_NAME: Final = (
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
)


class LibraryCode(NamedTuple):
    """The code of a library, taken apart.

    Attributes:
        name: of the library.
        body: Lua. It begins with the end of the first line, so that its lines keep their numbers.
    """

    name: bytes
    body: bytes


def parse(code: bytes) -> LibraryCode:
    """Take the code of a library apart.

    Raises:
        CommandError: the first line is missing, or says what there is not.
    """
    if not code.startswith(b"#!"):
        raise CommandError("ERR Missing library metadata")
    line, newline, _ = code.partition(b"\n")
    words = split_inline(line)
    if not newline or b"\0" in line or not words:
        raise CommandError(_BAD_LINE)
    name = _name(words[1:])
    if not _NAME.fullmatch(name):
        raise CommandError(_BAD_NAME)
    if words[0][2:].upper() != ENGINE:
        raise CommandError(f"ERR Engine '{_text(words[0][2:])}' not found")
    return LibraryCode(name, code[len(line) :])


def _name(options: list[bytes]) -> bytes:
    """The one option that there is."""
    name = None
    for option in options:
        if option[: len(_NAME_OPTION)].lower() != _NAME_OPTION:
            raise CommandError(f"ERR Invalid metadata value given: {_text(option)}")
        if name is not None:
            raise CommandError("ERR Invalid metadata value, name argument was given multiple times")
        name = option[len(_NAME_OPTION) :]
    if name is None:
        raise CommandError("ERR Library name was not given")
    return name


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="surrogateescape")
