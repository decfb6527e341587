"""The signature of a command: how many arguments it takes, which of them are keys, and where it may stand.

The engine's registry makes it from usage lines. Clients have a table of them, made from that registry:
`slotlog.commands`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slotlog.shared.errors import EventError, wrong_arity

ANY_NUMBER: Final = 1 << 30
"""The most arguments of a command that takes any number of them."""

_COUNT_DIGITS_MAX: Final = 7  # more arguments than that many digits say, no event has


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The arguments of a command, for clients. By default the first argument is the one key.

    Attributes:
        name: upper case, as bytes.
        arguments_min, arguments_max: how many arguments may follow the name.
        first_key, key_step: index of the first key among the arguments (-1: none) and the distance to the next one.
        many_keys: there may be more than one key.
        keys_end: where they end at the latest, exclusive; 0 when they may go on to the last argument; below 0 when so
            many arguments follow them.
        key_count: index of the argument that says how many keys follow it (-1: none does). Keys in front of it, such as
            a destination, are not counted.
        keys_optional: that number may be 0. Such a command names no key then, and goes to one partition.
        keyword: the word behind which the keys stand, and as many ids; it stands at `first_key` or later. Empty: none.
        options: by its literal, how many arguments follow an option, and whether they are a key; empty unless one is.
        physical: its reply counts records that are due as well, so no event may contain it (docs/differences.md).
        transactional: it may stand in an EXEC.
        alone: it may be an event of its own, outside of an EXEC.
        sessional: as an event of its own it needs a session.
        standalone: a topic of several partitions refuses it.
        for_operators: what it does that operators alone may do, so that no service can send it; empty: any may.
    """

    name: bytes
    arguments_min: int
    arguments_max: int = ANY_NUMBER
    first_key: int = 0
    key_step: int = 1
    many_keys: bool = False
    keys_end: int = 1
    key_count: int = -1
    keys_optional: bool = False
    keyword: bytes = b""
    options: Mapping[bytes, tuple[int, bool]] = field(default_factory=dict)
    physical: bool = False
    transactional: bool = True
    alone: bool = True
    sessional: bool = False
    standalone: bool = False
    for_operators: str = ""

    @property
    def keyless(self) -> bool:
        """Whether the command names no key: as an event it acts on the partition that it is in."""
        return self.first_key < 0

    def check_arity(self, args: Sequence[bytes]) -> None:
        """Refuse a wrong number of arguments.

        Raises:
            EventError: with Redis' text.
        """
        if not self.arguments_min <= len(args) <= self.arguments_max:
            raise EventError(wrong_arity(self.name.decode().lower()))

    def keys(self, args: Sequence[bytes]) -> list[bytes]:
        """The keys among `args`."""
        if self.first_key < 0:
            return []
        if not self.many_keys:
            return [args[self.first_key]]
        if self.keyword:
            return self._keys_behind_keyword(args)
        if self.key_count < 0:
            found = list(args[self.first_key : self.keys_end or None : self.key_step])
            return found + self._option_keys(args) if self.options else found
        first, step = self.key_count + 1, self.key_step
        count = _count(args[self.key_count])
        if self.keys_optional and not 0 < count * step <= len(args) - first:
            return []
        # A count that cannot be is the command's to refuse; until then the event belongs where its first key does.
        end = first + (count * step if 0 < count * step <= len(args) - first else 1)
        return [*args[self.first_key : self.key_count], *args[first:end:step]]

    def _keys_behind_keyword(self, args: Sequence[bytes]) -> list[bytes]:
        """The first half of what follows the keyword, or one key: without it the command is to refuse the arguments."""
        words = list(args[self.first_key :])
        behind = next((at for at, word in enumerate(words[:-1], 1) if word.upper() == self.keyword), 0)
        return words[behind : behind + max(1, (len(words) - behind) // 2)] if behind else words[:1]

    def _option_keys(self, args: Sequence[bytes]) -> list[bytes]:
        """The key that the last option with one names, where it has its value. Words of no option are passed over."""
        found: list[bytes] = []
        at = self.arguments_min
        while at < len(args):
            width, is_key = self.options.get(args[at].partition(b"\0")[0].upper(), (0, False))
            if is_key and at + 1 < len(args):
                found = [args[at + 1]]
            at += 1 + width
        return found


def _count(text: bytes) -> int:
    """A number of keys as Redis reads it, without sign or leading zero; 0 for what is none, or too large for one."""
    return int(text) if text.isdigit() and not text.startswith(b"0") and len(text) <= _COUNT_DIGITS_MAX else 0
