r"""Transcripts of redis-cli sessions: read from docstrings, and replies shown as redis-cli shows them to a RESP2 user.

    > RPUSH l a "b c"
    (integer) 2
    > LRANGE l 0 -1
    1) "a"
    2) "b c"

A line that begins with "> " is a command, the lines up to the next one or to an empty line are its reply. A word in
quotation marks may hold spaces and the escapes \n, \r, \t, \a, \b, \\, \" and \xHH.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final, NamedTuple

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, Map, Named, Pairs, Status
from slotlog.shared.doubles import format_double
from tests.real.oracle import ErrorReply, NullArray, SimpleString

_PROMPT: Final = "> "
_WORD: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))(?=\s|$)', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b", '"': '\\"', "\\": "\\\\"}
_UNESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}


class Step(NamedTuple):
    """A command of a transcript (name and arguments), and the reply that it shows."""

    line: str
    words: list[bytes]
    shown: str


def parse(docstring: str) -> list[Step]:
    """The steps of every transcript in `docstring`, in their order."""
    steps: list[Step] = []
    replying = False
    for line in inspect.cleandoc(docstring).splitlines():
        if line.startswith(_PROMPT):
            steps.append(Step(line, split(line.removeprefix(_PROMPT)), ""))
            replying = True
        elif not line:
            replying = False
        elif replying:
            last = steps[-1]
            steps[-1] = last._replace(shown=f"{last.shown}\n{line}" if last.shown else line)
    return steps


def split(line: str) -> list[bytes]:
    """The words of a command line, as redis-cli splits it.

    Raises:
        ValueError: a quotation mark without its partner, or with something right behind it.
    """
    words = []
    at = 0
    line = line.rstrip()
    while at < len(line):
        match = _WORD.match(line, at)
        if match is None:
            raise ValueError(f"unbalanced quotes: {line}")
        quoted, plain = match.groups()
        words.append(plain.encode() if quoted is None else _unescape(quoted))
        at = match.end()
    return words


def show(reply: Any, indent: str = "") -> str:
    """A reply of the engine or of the oracle as redis-cli prints it; what only RESP3 has is shown as RESP2 sends it."""
    match reply:
        case None | NullArray():
            return "(nil)"
        case int():
            return f"(integer) {reply}"
        case float():
            return _quote(format_double(reply))
        case Status():
            return reply.decode()
        case bytes():
            return _quote(reply)
        case SimpleString(text):
            return text.decode()
        case ErrorReply(text):
            return f"(error) {text.decode()}"
        case CommandError():
            return f"(error) {reply.message}"
        case Map() | Pairs():
            return _show_array([value for pair in reply for value in pair], indent)
        case Named():
            return _show_array([list(pair) for pair in reply], indent)
        case list():
            return _show_array(reply, indent)
    if reply is NIL_ARRAY:
        return "(nil)"
    raise TypeError(f"{reply!r} is no reply")


def _show_array(values: list[Any], indent: str) -> str:
    """Elements below each other; the first one stands right behind the number that an outer array gave it."""
    if not values:
        return "(empty array)"
    width = len(str(len(values)))
    inner = indent + " " * (width + 2)
    lines = [f"{number:{width}}) {show(value, inner)}" for number, value in enumerate(values, start=1)]
    return f"\n{indent}".join(lines)


def _quote(value: bytes) -> str:
    characters = value.decode("latin-1")
    return f'"{"".join(map(_escape, characters))}"'


def _escape(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    return character if " " <= character <= "~" else f"\\x{ord(character):02x}"


def _unescape(text: str) -> bytes:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 3 else _UNESCAPED.get(code, code)

    return _ESCAPE.sub(replace, text.encode().decode("latin-1")).encode("latin-1")
