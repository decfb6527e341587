"""Reasons of dead letters, rejections and stopped partitions, as logs and the status page show them."""

from __future__ import annotations

import re
from typing import Final

_COMMAND: Final = re.compile(r"(ERR unknown command )'(.*)'", re.DOTALL)
_FIELD: Final = re.compile(r"(unknown field )(.*)", re.DOTALL)
_QUOTING: Final = re.compile(
    r"(ERR (?:Unsupported option|unknown type name|member|invalid longitude,latitude pair) ).*", re.DOTALL
)
"""Redis' own texts that repeat an argument of the command (engine/errors.py)."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z._]{0,23}")
_EXCEPTION: Final = re.compile(r"(offset \d+ \(.{0,64}\) cannot be applied: \w+): .*", re.DOTALL)


def shown_reason(reason: str) -> str:
    """A reason without what it may repeat of an event, or of whatever an exception has met.

    The name of a command or field stays as long as it looks like one: somebody may have sent a whole line as a name.
    """
    if (match := _QUOTING.fullmatch(reason)) is not None:
        return f"{match[1]}(which is left out here)"
    for pattern in (_COMMAND, _FIELD):
        match = pattern.fullmatch(reason)
        if match is not None and not _NAME.fullmatch(match[2]):
            return f"{match[1]}(its name is left out here)"
    match = _EXCEPTION.fullmatch(reason)
    return reason if match is None else f"{match[1]}; /readyz has the whole reason"
