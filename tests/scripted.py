"""Scripts and functions whose effect the plain model knows: each runs the commands that its arguments hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from engine.values.rdb.functions import dump

_RUN: Final = b"""
local at = 1
while ARGV[at] do
    local last = at + ARGV[at]
    redis.%b(unpack(ARGV, at + 1, last))
    at = last + 1
end
"""
CALL: Final = _RUN % b"call"
"""Up to the first command that fails."""

TRY: Final = _RUN % b"pcall"
"""All of them, whatever fails."""

NEVER: Final = CALL + b"while true do end"
"""It meets the limit of instructions behind its last command, so nothing of it stays; unless one fails before."""

SOURCES: Final = (CALL, TRY, NEVER)


class Library(NamedTuple):
    """A library of functions: its name, and of each function a script that does the same."""

    name: bytes
    functions: dict[bytes, bytes]


def _code(library: Library) -> bytes:
    """The code of a library."""
    functions = (
        b"redis.register_function('%b', function(KEYS, ARGV) %b end)\n" % each for each in library.functions.items()
    )
    return b"#!lua name=%b\n%b" % (library.name, b"".join(functions))


FUNCTIONS: Final = (b"call", b"try", b"never", b"last")
LIBRARIES: Final = {
    _code(library): library
    for library in (
        Library(b"first", {b"call": CALL, b"never": NEVER}),
        Library(b"first", {b"call": TRY, b"last": CALL}),
        Library(b"second", {b"try": TRY}),
        Library(b"third", {b"last": CALL}),
    )
}
"""By their code. Two have the same name, and two others a function of the same name."""

PAYLOADS: Final = {dump(codes): codes for codes in ([code] for code in LIBRARIES)} | {
    dump(codes): codes for codes in (list(LIBRARIES)[1:3], list(LIBRARIES)[1:], [])
}
"""What FUNCTION RESTORE gets, and the libraries in it; the second but last has a function twice."""


def arguments(commands: Iterable[Sequence[Any]]) -> list[Any]:
    """What such a script gets behind its keys: of each command how many words it has, and they."""
    split = ([*words[0].split(b"|"), *words[1:]] for words in commands)
    return [word for words in split for word in (b"%d" % len(words), *words)]


def commands_in(words: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The commands of `arguments`."""
    at = 0
    while at < len(words):
        last = at + int(words[at])
        name, *args = words[at + 1 : last + 1]
        yield (b"%b|%b" % (name, args[0]), *args[1:]) if name == b"XGROUP" else (name, *args)
        at = last + 1
