"""Cuts a line as a person types it into words, with blanks and quotes."""

from __future__ import annotations

import re
from typing import Final

# Possessive and atomic, so that nothing is tried twice: a line of any kind takes linear time.
_DOUBLE_QUOTED: Final = rb'"(?>\\.|[^"\\])*+"'
_SINGLE_QUOTED: Final = rb"'(?>\\'|[^'])*+'"
_PIECE: Final = re.compile(rb"[^ \t\r\n\"']++|%b|%b" % (_DOUBLE_QUOTED, _SINGLE_QUOTED), re.DOTALL)
_ARGUMENT: Final = re.compile(
    rb"[ \t\n\v\f\r]*+([^ \t\r\n\"']*+(?:%b|%b)(?=[ \t\n\v\f\r]|\Z)|[^ \t\r\n\"']++(?=[ \t\r\n]|\Z))"
    % (_DOUBLE_QUOTED, _SINGLE_QUOTED),
    re.DOTALL,
)
_BLANKS: Final = b" \t\n\v\f\r"
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROL: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split_inline(line: bytes) -> list[bytes] | None:
    r"""The arguments of an inline command without its line end, or None if its quotes are wrong.

    A quote may open within an argument; what closes it ends the argument, so a blank has to follow. In "…": \n \r \t \b
    \a, \xHH, and any other character for itself. In '…': \' alone. Bare: nothing.
    """
    args: list[bytes] = []
    position = 0
    while match := _ARGUMENT.match(line, position):
        argument = match[1]
        if b'"' in argument or b"'" in argument:
            argument = b"".join(map(_unquoted, _PIECE.findall(argument)))
        args.append(argument)
        position = match.end()
    return args if not line[position:].strip(_BLANKS) else None


def _unquoted(piece: bytes) -> bytes:
    if piece[:1] == b'"':
        return _ESCAPE.sub(_unescaped, piece[1:-1])
    if piece[:1] == b"'":
        return piece[1:-1].replace(rb"\'", b"'")
    return piece


def _unescaped(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes.fromhex(match[1].decode())
    return _CONTROL.get(match[2], match[2])
