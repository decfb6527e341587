"""The rights of the user who sent a script, as its event carries them.

    selector LF selector …      a command may run when one of them allows all of it
    selector    words with one space between them:
                +get,set        these commands and no others, lower case; `select|0`: with that first argument
                -flushall       all commands but these; `-` alone: all
                ~* ~a* %R~b* %W~c*    keys: all, or those that match a pattern, to be read and written, or one of both
                &* &a*          channels: all, or those that match
                db=0,2          databases; without it all

The server resolves categories and the order of rules before it sends the event. So a replay decides as the first run
did, whatever a later release puts into a category.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.commands.key_access import letters
from engine.commands.registry import Spec
from engine.values.glob import matcher
from engine.values.numbers import parse_int

Matches = Callable[[bytes], bool]

_READ_WRITE: Final = "RW"
_DATABASE, _COMMAND, _KEY, _CHANNEL = range(4)
_REASONS: Final = ("database", "command", "key", "channel")
_NO_DATABASE: Final = "No permissions to access database"
_NO_KEY: Final = "No permissions to access a key"
_NO_CHANNEL: Final = "No permissions to access a channel"


class Denial(NamedTuple):
    """The reason why a command may not run. Of those of several selectors, the greatest is the one to tell.

    Attributes:
        kind: what is not allowed.
        position: among the keys.
        message: for the script.
        denied: the command (lower case), key, channel or database, as `ACL LOG` shows it.
    """

    kind: int
    position: int
    message: str
    denied: bytes

    @property
    def reason(self) -> str:
        """What is not allowed, as `ACL LOG` shows it."""
        return _REASONS[self.kind]


class _Selector:
    """One selector."""

    def __init__(self, text: bytes) -> None:
        self._allows_named, self._named = False, frozenset[bytes]()
        self._all_keys = self._all_channels = False
        self._keys: list[tuple[str, Matches]] = []
        self._channels: list[Matches] = []
        self._databases: frozenset[int] | None = None
        for word in text.split(b" "):
            self._add(word)

    def _add(self, word: bytes) -> None:
        kind, rest = word[:1], word[1:]
        if kind in {b"+", b"-"}:
            self._allows_named, self._named = kind == b"+", frozenset(rest.split(b","))
        elif word == b"~*":
            self._all_keys = True
        elif kind in {b"~", b"%"}:
            head, _, pattern = word.partition(b"~")
            self._keys.append((head[1:].decode() or _READ_WRITE, matcher(pattern)))
        elif word == b"&*":
            self._all_channels = True
        elif kind == b"&":
            self._channels.append(matcher(rest))
        elif word.startswith(b"db="):
            self._databases = frozenset(int(number) for number in word[3:].split(b",") if number)

    def denial(self, user: str, name: bytes, spec: Spec | None, args: list[bytes], db: int) -> Denial | None:
        if not self._allows_command(name, args):
            shown = name.decode().lower()
            message = f"User {user} has no permissions to run the '{shown}' command"
            return Denial(_COMMAND, 0, message, name.lower())
        if spec is None:
            return None
        if self._databases is not None:
            denied = self._denied_database(self._databases, spec, args, db)
            if denied is not None:
                return Denial(_DATABASE, 0, _NO_DATABASE, denied)
        if self._all_keys or not (keys := spec.keys(args)):
            return None
        access = [spec.access_by(args)] if spec.access_by is not None else spec.access
        needed = [letters(access[0]), *(letters(access[-1]),) * (len(keys) - 1)]
        for position, (key, wanted) in enumerate(zip(keys, needed, strict=True)):
            if not any(wanted in allowed and matches(key) for allowed, matches in self._keys):
                return Denial(_KEY, position, _NO_KEY, key)
        return None

    def channel_denial(self, channel: bytes) -> Denial | None:
        allowed = self._all_channels or any(matches(channel) for matches in self._channels)
        return None if allowed else Denial(_CHANNEL, 0, _NO_CHANNEL, channel)

    def _allows_command(self, name: bytes, args: list[bytes]) -> bool:
        lower = name.lower()
        if (lower in self._named) == self._allows_named:
            return True
        return self._allows_named and bool(args) and lower + b"|" + args[0].lower() in self._named

    def _denied_database(self, allowed: frozenset[int], spec: Spec, args: list[bytes], db: int) -> bytes | None:
        """The first database that is named and not allowed; the command, lower case, where that is another one."""
        if spec.database == "every":
            return spec.name.lower()
        for argument in () if spec.databases is None else spec.databases(args):
            number = parse_int(argument)
            if number is not None and number not in allowed:
                return argument
        uses_current = spec.databases is None or spec.database != "named"
        return spec.name.lower() if uses_current and db not in allowed else None


class Rights:
    """The rights of one user inside of a script.

    Args:
        user: the name, for error texts.
        text: as above.

    Attributes:
        user: as given.
    """

    def __init__(self, user: bytes, text: bytes) -> None:
        self.user = user
        self._user = user.decode(errors="surrogateescape")
        self._selectors = [_Selector(line) for line in text.split(b"\n")]

    def denial(self, name: bytes, spec: Spec | None, args: list[bytes], db: int) -> Denial | None:
        """Why a command may not run; None when it may.

        Args:
            name: upper case, `OBJECT|ENCODING` for a subcommand.
            spec: of the command; None for one that has no keys: of PUBLISH the first argument is a channel.
            args: what follows the name.
            db: the database that is selected.
        """
        denials: list[Denial] = []
        for selector in self._selectors:
            denial = selector.denial(self._user, name, spec, args, db)
            if denial is None and args and name in {b"PUBLISH", b"SPUBLISH"}:
                denial = selector.channel_denial(args[0])
            if denial is None:
                return None
            denials.append(denial)
        return max(denials)
