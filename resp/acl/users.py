"""A user: name, passwords and permissions."""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest
from typing import Any, Final

from engine.commands.registry import SPECS
from engine.values.replies import Map, Set
from resp.acl.rules import apply_to_user, password_hash
from resp.acl.selector import Denial, Selector

DEFAULT_NAME: Final = b"default"
"""The user of a client that has not said who it is."""

_NO_HASH: Final = bytes(len(password_hash(b"")))
"""As long as a hash, and the hash of nothing."""


class User:
    """A user. Its sessions share it, so that a change applies at once. A new one is off.

    Attributes:
        enabled: whether anybody can become this user; sessions that already are stay.
        nopass: any password will do.
        password_hashes: SHA-256 in hexadecimal; a dict because their order is shown.
        root, selectors: a command must fit the first, or one of the others.
        unrestricted: everything is allowed, so that nothing has to be checked.
    """

    __slots__ = ("enabled", "name", "nopass", "password_hashes", "root", "selectors", "unrestricted")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.reset()

    def __repr__(self) -> str:
        """Without the hashes of its passwords: it may end up in a log."""
        return f"User({self.name!r}, {'on' if self.enabled else 'off'})"

    def reset(self) -> None:
        """Make it a new user."""
        self.enabled = False
        self.nopass = False
        self.password_hashes: dict[bytes, None] = {}
        self.root = Selector()
        self.selectors: list[Selector] = []
        self.unrestricted = False

    @property
    def needs_no_password(self) -> bool:
        """Whether a client is this user without a word, if it is the default one."""
        return self.enabled and self.nopass

    def with_rules(self, rules: Iterable[bytes]) -> User:
        """A copy that the rules have been applied to.

        Raises:
            RuleError: one of them cannot be applied.
        """
        other = User(self.name)
        other.become(self)
        for rule in rules:
            apply_to_user(other, rule)
        return other

    def become(self, other: User) -> None:
        """Take over all that `other` may do, and its passwords."""
        self.enabled = other.enabled
        self.nopass = other.nopass
        self.password_hashes = dict(other.password_hashes)
        self.root = other.root.copy()
        self.selectors = [selector.copy() for selector in other.selectors]
        self.unrestricted = any(selector.unrestricted for selector in (self.root, *self.selectors))

    def accepts(self, password: bytes) -> bool:
        """Whether `password` is one of this user's. Takes as long for a wrong one as for a right one."""
        right = has_hash(self.password_hashes, password)
        return self.enabled and (self.nopass or right)

    def denial(self, name: bytes, args: list[bytes], db: int) -> Denial | None:
        """Why a command may not run; None when it may.

        Args:
            name: upper case, `CONFIG|GET` for a subcommand; of a command that there is, with a right number of
                arguments.
            args: those after the name.
            db: the database that the client has selected.
        """
        if self.unrestricted:
            return None
        denials = []
        for selector in (self.root, *self.selectors):
            denial = selector.denial(name, args, db)
            if denial is None:
                return None
            denials.append(denial)
        return max(denials, key=lambda denial: denial.relevance)

    def reads_all_keys(self, name: bytes, args: list[bytes]) -> bool:
        """Whether one and the same selector allows a command and every key to be read."""
        selectors = (self.root, *self.selectors)
        return any(selector.reads_all_keys and selector.allows_command(name, args) for selector in selectors)

    def as_user(self, name: bytes, args: list[bytes], *, without_memory: bool = False) -> tuple[bytes, list[bytes]]:
        """A script, with the rights of this user where it may not do everything: what stands in the log, or reads.

        Args:
            name: of the command that runs a script, upper case.
            args: what follows it.
            without_memory: there is no more memory to be used, which the event of a script has to say.
        """
        writes = SPECS[name].write
        if self.unrestricted and not (writes and without_memory):
            return name, args
        rights = b"\n".join(selector.resolved() for selector in (self.root, *self.selectors))
        wrapper = b"RUNAS_RO" if not writes else b"RUNAS_OOM" if without_memory else b"RUNAS"
        return wrapper, [self.name, rights, name, *args]

    def check(self, name: bytes, args: list[bytes], db: int = 0) -> str | None:
        """The error reply for a command that may not run; None when it may."""
        denial = self.denial(name, args, db)
        return None if denial is None else denial.error(self.name)

    def allows_channel(self, channel: bytes, *, is_pattern: bool) -> bool:
        """Whether a subscription to a channel, or to a pattern of channels, may stay."""
        return any(selector.allows_channel(channel, is_pattern=is_pattern) for selector in (self.root, *self.selectors))

    def describe(self) -> bytes:
        """The line of `ACL LIST` and of the ACL file, hashes of passwords included."""
        parts = [b"user", self.name, b"on" if self.enabled else b"off"]
        if self.nopass:
            parts.append(b"nopass")
        parts.extend(b"#" + hashed for hashed in self.password_hashes)
        parts.append(self.root.rules())
        parts.extend(b"(%b)" % selector.rules() for selector in self.selectors)
        return b" ".join(parts)

    def details(self) -> Map:
        """The reply of `ACL GETUSER`."""
        flags = [b"on" if self.enabled else b"off", *([b"nopass"] if self.nopass else [])]
        return Map(
            [
                (b"flags", Set(flags)),
                (b"passwords", list(self.password_hashes)),
                *_selector_details(self.root),
                (b"selectors", [Map(_selector_details(selector)) for selector in self.selectors]),
            ]
        )


def has_hash(hashes: Iterable[bytes], password: bytes) -> bool:
    """Whether the hash of `password` is among `hashes`; looks at all of them, and at one even if there is none."""
    given = password_hash(password)
    found = False
    for known in tuple(hashes) or (_NO_HASH,):
        found |= compare_digest(known, given)
    return found


def _selector_details(selector: Selector) -> list[tuple[bytes, Any]]:
    return [
        (b"commands", selector.describe_commands()),
        (b"keys", selector.describe_keys()),
        (b"channels", selector.describe_channels()),
        (b"databases", selector.describe_databases()),
    ]
