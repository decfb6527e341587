"""SLOWLOG: the latest slow commands, without passwords, with long arguments cut."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from resp.acl import redacted

_ARGUMENTS_MAX: Final = 32
_ARGUMENT_BYTES_MAX: Final = 128


class NamedClient(Protocol):
    """The sender of a slow command.

    Attributes:
        address: its host and port.
        name: as CLIENT SETNAME gave it.
    """

    address: bytes
    name: bytes


@dataclass(slots=True)
class _InScript:
    address: bytes = b"?:0"
    name: bytes = b""


IN_SCRIPT: Final = _InScript()
"""Whom Redis shows as the sender of a command that a script calls."""


class SlowCommand(NamedTuple):
    """One slow command.

    Attributes:
        number: of its own, growing since the server started.
        time_s: when it was noted, Unix time.
        microseconds: how long it took.
        command: its name and arguments, shortened.
        address, client_name: of the client, as they were then.
    """

    number: int
    time_s: int
    microseconds: int
    command: list[bytes]
    address: bytes
    client_name: bytes


class SlowLog:
    """The newest slow commands.

    Attributes:
        slower_than_us: `slowlog-log-slower-than`: what takes less is not slow; below 0 nothing is.
    """

    def __init__(self) -> None:
        self.slower_than_us = 10_000
        self._length_max = 128
        self._entries: deque[SlowCommand] = deque()  # newest first
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def slow_seconds(self) -> float:
        """What takes less need not be told."""
        return self.slower_than_us / 1_000_000 if self.slower_than_us >= 0 else inf

    def keep(self, length_max: int) -> None:
        """Keep this many from now on, as Redis does: what is too much goes when the next one comes, and 0 stops all."""
        self._length_max = length_max

    def add(self, client: NamedClient, command: list[Any], microseconds: int, time_s: int) -> None:
        """Note a command, if it was slow; of an EXEC, each command is a list among its arguments."""
        if not 0 <= self.slower_than_us <= microseconds or not self._length_max:
            return
        shown = shortened(redacted(command))
        entry = SlowCommand(self._next_number, time_s, microseconds, shown, client.address, client.name)
        self._next_number += 1
        self._entries.appendleft(entry)
        while len(self._entries) > self._length_max:
            self._entries.pop()

    def newest(self, count: int) -> list[SlowCommand]:
        """The newest `count` entries, newest first."""
        return list(islice(self._entries, count))

    def clear(self) -> None:
        """Forget the entries; their numbers are not used again."""
        self._entries.clear()


def shortened(command: list[Any]) -> list[bytes]:
    """At most 32 words of 128 bytes, and how much was left out, as Redis says it. A list is one word."""
    words = command
    if len(command) > _ARGUMENTS_MAX:
        kept = _ARGUMENTS_MAX - 1
        words = [*command[:kept], b"... (%d more arguments)" % (len(command) - kept)]
    return [_shortened_word(word if isinstance(word, bytes) else b" ".join(shortened(word))) for word in words]


def _shortened_word(word: bytes) -> bytes:
    more = len(word) - _ARGUMENT_BYTES_MAX
    return word if more <= 0 else b"%b... (%d more bytes)" % (word[:_ARGUMENT_BYTES_MAX], more)
