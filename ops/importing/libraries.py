"""Makes events of libraries of functions."""

from __future__ import annotations

from typing import Final

from engine.commands.scripting.library_code import parse
from engine.errors import CommandError
from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime
from engine.tables.libraries import library_of
from engine.values.replies import Reply
from ops.importing.source import ImportKey, LeftOut
from slotlog.shared.limits import RECORD_BYTES_MAX
from slotlog.wording import sized

LIBRARY: Final = "library"
"""The type of a library of functions, for the counts."""

_WHAT: Final = "library of functions"
_FRAME_BYTES: Final = 1024


class _Loading:
    """The host of code that is only loaded: it can run no command."""

    seed = 0

    def call(self, words: list[bytes]) -> Reply:
        """Refuse it."""
        raise CommandError("ERR no command runs while a library is loaded")

    def check_acl(self, words: list[bytes]) -> bool:
        """Refuse it."""
        return False

    def log(self, level: int, text: bytes) -> None:
        """Drop a line."""

    def pause(self) -> bytes | None:
        """Go on."""
        return None


def library(name: bytes, code: bytes) -> ImportKey | LeftOut:
    """The library as an event that takes the place of one of its name; or why it cannot be one.

    Args:
        name: what it goes by where it comes from.
        code: all of it.
    """
    try:
        parsed = parse(code)
        functions = ScriptRuntime(fresh=True).functions_of(library_of(code, ()).sha, parsed.body, _Loading())
    except (CommandError, ScriptLimitError) as error:
        return LeftOut(None, name, _WHAT, error.message.removeprefix("ERR "))
    if not functions:
        return LeftOut(None, name, _WHAT, "it registers no function")
    if len(code) > RECORD_BYTES_MAX - _FRAME_BYTES:
        return LeftOut(None, name, _WHAT, f"an event holds {sized(RECORD_BYTES_MAX)}")
    return ImportKey(0, parsed.name, LIBRARY, [(b"FUNCTION|LOAD", [b"REPLACE", code])])
