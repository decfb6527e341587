"""A selector: one set of permissions for commands, keys, channels and databases.

A user has a root selector and any number of others, written in parentheses; a command may run when one of them allows
all of it. Rules are kept as they were given, in their order, because the last one that speaks of a command decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from engine.commands.registry import SPECS
from engine.commands.scripting.callable import WITHOUT_KEYS
from engine.values.glob import matcher
from resp.acl import access
from resp.catalog.categories import categories_of
from resp.catalog.server_registry import SERVER_SPECS

Reason = Literal["database", "command", "key", "channel"]

_RELEVANCE: Final[dict[Reason, int]] = {"database": 0, "command": 1, "key": 2, "channel": 3}


class Denial(NamedTuple):
    """The reason why a command may not run.

    Attributes:
        reason: what is not allowed.
        denied: the command (lower case), key, channel or database, as `ACL LOG` shows it.
        position: which of several keys or channels; the further one says more.
    """

    reason: Reason
    denied: bytes
    position: int = 0

    @property
    def relevance(self) -> tuple[int, int]:
        """Of the denials by several selectors, the greatest is the one to tell."""
        return _RELEVANCE[self.reason], self.position

    def error(self, user_name: bytes) -> str:
        """The error reply."""
        if self.reason == "database":
            return "NOPERM No permissions to access database"
        if self.reason == "command":
            return f"NOPERM User {_text(user_name)} has no permissions to run the '{_text(self.denied)}' command"
        return f"NOPERM No permissions to access a {self.reason}"

    def explanation(self, user_name: bytes) -> bytes:
        """What `ACL DRYRUN` answers; it names the key or channel."""
        what = {
            "command": b"run the '%b' command",
            "key": b"access the '%b' key",
            "channel": b"access the '%b' channel",
            "database": b"access database %b",
        }[self.reason]
        return b"User %b has no permissions to " % user_name + what % self.denied


@dataclass(slots=True)
class KeyPattern:
    """A glob pattern for keys and what it allows: `R`, `W` or `RW`."""

    pattern: bytes
    access: str
    matches: Callable[[bytes], bool] = field(init=False)

    def __post_init__(self) -> None:
        self.matches = matcher(self.pattern)

    def __bytes__(self) -> bytes:
        """As a rule."""
        return (b"~" if self.access == access.READ_WRITE else b"%%%b~" % self.access.encode()) + self.pattern


class _Verdict(NamedTuple):
    """On one command: allowed, or allowed with one of these first arguments."""

    allowed: bool
    first_arguments: frozenset[bytes]


class Selector:
    """One set of permissions; a new one allows nothing but all databases.

    Attributes:
        all_commands: what holds for a command of which no rule speaks.
        command_rules: with their sign, lower case: `+get`, `-@dangerous`, `+config|get`, `+select|0`.
        all_keys, key_patterns: by the pattern.
        all_channels, channel_patterns: by the pattern, with its matcher.
        databases: the allowed ones, ascending; None for all of them.
    """

    __slots__ = (
        "_verdicts",
        "all_channels",
        "all_commands",
        "all_keys",
        "channel_patterns",
        "command_rules",
        "databases",
        "key_patterns",
    )

    def __init__(self) -> None:
        self.all_commands = False
        self.command_rules: list[bytes] = []
        self.all_keys = False
        self.key_patterns: dict[bytes, KeyPattern] = {}
        self.all_channels = False
        self.channel_patterns: dict[bytes, Callable[[bytes], bool]] = {}
        self.databases: tuple[int, ...] | None = None
        self._verdicts: dict[bytes, _Verdict] = {}

    def copy(self) -> Selector:
        """One with the same permissions that may be changed by itself."""
        other = Selector()
        other.all_commands = self.all_commands
        other.command_rules = list(self.command_rules)
        other.all_keys = self.all_keys
        other.key_patterns = {key: KeyPattern(key, pattern.access) for key, pattern in self.key_patterns.items()}
        other.all_channels = self.all_channels
        other.channel_patterns = dict(self.channel_patterns)
        other.databases = self.databases
        return other

    # ------------------------------------------------------------------ changes

    def set_base(self, *, allow: bool) -> None:
        """Allow or refuse all commands, and forget every rule before."""
        self.all_commands = allow
        self.command_rules.clear()
        self._verdicts.clear()

    def add_command_rule(self, word: bytes, *, allow: bool) -> None:
        """Let the last word on a command, subcommand, first argument or `@category` be this one."""
        word = word.lower()
        kept = [rule for rule in self.command_rules if rule[1:] != word and not rule[1:].startswith(word + b"|")]
        self.command_rules = [*kept, (b"+" if allow else b"-") + word]
        self._verdicts.clear()

    def add_key_pattern(self, pattern: bytes, allowed: str) -> None:
        """Allow keys that match, also what an earlier rule allowed for the same pattern."""
        before = self.key_patterns.get(pattern)
        if before is None:
            self.key_patterns[pattern] = KeyPattern(pattern, allowed)
        elif before.access != allowed:
            before.access = access.READ_WRITE

    def add_channel_pattern(self, pattern: bytes) -> None:
        """Allow channels that match."""
        self.channel_patterns.setdefault(pattern, matcher(pattern))

    # ------------------------------------------------------------------ questions

    @property
    def unrestricted(self) -> bool:
        """Whether it allows everything, so that no command needs to be looked at."""
        no_refusals = not any(rule.startswith(b"-") for rule in self.command_rules)
        return self.all_commands and no_refusals and self.all_keys and self.all_channels and self.databases is None

    @property
    def reads_all_keys(self) -> bool:
        """Whether every key may be read, whatever its name: by `~*` or `%R~*`."""
        pattern = self.key_patterns.get(b"*")
        return self.all_keys or (pattern is not None and access.READ in pattern.access)

    def denial(self, name: bytes, args: list[bytes], db: int) -> Denial | None:
        """The first thing about a command that this selector does not allow."""
        if not self.allows_command(name, args):
            return Denial("command", name.lower())
        return self._database_denial(name, args, db) or self._key_denial(name, args) or self._channel_denial(name, args)

    def allows_command(self, name: bytes, args: list[bytes]) -> bool:
        """Whether the command may run at all (upper case, subcommands as `CONFIG|GET`)."""
        verdict = self._verdicts.get(name)
        if verdict is None:
            verdict = self._verdicts[name] = self._decide(name)
        if verdict.allowed:
            return True
        return bool(verdict.first_arguments and args and args[0].lower() in verdict.first_arguments)

    def allows_channel(self, channel: bytes, *, is_pattern: bool) -> bool:
        """Whether a channel, or a pattern of channels as it stands, may be used."""
        if self.all_channels:
            return True
        if is_pattern:
            return channel in self.channel_patterns
        return any(matches(channel) for matches in self.channel_patterns.values())

    def _decide(self, name: bytes) -> _Verdict:
        """Go through the rules in their order; the last one that speaks of the command decides."""
        server = SERVER_SPECS.get(name)
        if server is not None and "no_auth" in server.flags:
            return _Verdict(allowed=True, first_arguments=frozenset())  # what one may do before one is anybody
        lower = name.lower()
        container = lower.partition(b"|")[0]
        categories = categories_of(name)
        allowed = self.all_commands
        first_arguments: list[bytes] = []
        for rule in self.command_rules:
            word = rule[1:]
            speaks = word[1:].decode() in categories if word.startswith(b"@") else word in (lower, container)
            if speaks:
                allowed = rule.startswith(b"+")
                first_arguments.clear()
            elif word.startswith(lower + b"|"):
                first_arguments.append(word[len(lower) + 1 :])
        return _Verdict(allowed, frozenset(first_arguments))

    def _database_denial(self, name: bytes, args: list[bytes], db: int) -> Denial | None:
        if self.databases is None:
            return None
        for argument in access.databases_named(name, args):
            number = access.database_number(argument)
            if number is not None and number not in self.databases:
                return Denial("database", argument)
        if access.needs_all_databases(name) or (access.uses_current_database(name) and db not in self.databases):
            return Denial("database", name.lower())
        return None

    def _key_denial(self, name: bytes, args: list[bytes]) -> Denial | None:
        if self.all_keys:
            return None
        for position, (key, needed) in enumerate(access.keys_of_event(name, args)):
            if not any(
                needed in pattern.access and pattern.matches(key) for pattern in self.key_patterns.values()
            ):  # "" is in every string, "RW" in itself alone
                return Denial("key", key, position)
        return None

    def _channel_denial(self, name: bytes, args: list[bytes]) -> Denial | None:
        if self.all_channels:
            return None
        channels = access.channels_touched(name, args)
        if channels is not None:
            for position, channel in enumerate(channels.names):
                if not self.allows_channel(channel, is_pattern=channels.are_patterns):
                    return Denial("channel", channel, position)
        return None

    # ------------------------------------------------------------------ descriptions

    def describe_commands(self) -> bytes:
        """Such as `-@all +get +@list`."""
        return b" ".join([b"+@all" if self.all_commands else b"-@all", *self.command_rules])

    def describe_keys(self) -> bytes:
        """Such as `~a* %R~b*`."""
        return b"~*" if self.all_keys else b" ".join(map(bytes, self.key_patterns.values()))

    def describe_channels(self) -> bytes:
        """Such as `&a* &b`."""
        return b"&*" if self.all_channels else b" ".join(b"&" + pattern for pattern in self.channel_patterns)

    def describe_databases(self) -> bytes:
        """Such as `db=0,2`; empty when none is allowed."""
        if self.databases is None:
            return b"alldbs"
        return b"db=" + b",".join(b"%d" % db for db in self.databases) if self.databases else b""

    def resolved(self) -> bytes:
        """All of it for the commands of a script, as `engine.commands.scripting.rights` reads it."""
        allowed: list[bytes] = []
        refused: list[bytes] = []
        with_argument: list[bytes] = []
        for name in sorted({*(name for name, spec in SPECS.items() if not spec.internal), *WITHOUT_KEYS}):
            verdict = self._decide(name)
            (allowed if verdict.allowed else refused).append(name.lower())
            with_argument += [name.lower() + b"|" + argument for argument in sorted(verdict.first_arguments)]
        if with_argument or len(allowed) < len(refused):
            commands = b"+" + b",".join(allowed + with_argument)
        else:
            commands = b"-" + b",".join(refused)
        parts = [commands, self.describe_keys(), self.describe_channels()]
        if self.databases is not None:
            parts.append(b"db=" + b",".join(b"%d" % db for db in self.databases))
        return b" ".join(part for part in parts if part)

    def rules(self) -> bytes:
        """All of it as rules that make the same selector out of a new one."""
        parts = [self.describe_keys()]
        if not self.all_channels:
            parts.append(b"resetchannels")
        parts.append(self.describe_channels())
        if self.databases is not None:
            parts.append(self.describe_databases() or b"resetdbs")
        parts.append(self.describe_commands())
        return b" ".join(part for part in parts if part)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
