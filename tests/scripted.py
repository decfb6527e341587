"""Scripts whose effect the plain model knows: each runs the commands that its arguments hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

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


def arguments(commands: Iterable[Sequence[Any]]) -> list[Any]:
    """What such a script gets behind its keys: of each command how many words it has, and they."""
    return [word for words in commands for word in (b"%d" % len(words), *words)]


def commands_in(words: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The commands of `arguments`."""
    at = 0
    while at < len(words):
        last = at + int(words[at])
        yield words[at + 1 : last + 1]
        at = last + 1
