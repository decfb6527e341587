"""All users of one server: logins, changes, and the ACL file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from engine.errors import CommandError
from resp.acl.file import read_users
from resp.acl.log import AclLog
from resp.acl.rules import RuleError, UnmatchedError, has_blank, merged
from resp.acl.users import DEFAULT_NAME, User, has_hash

WRONG_PASSWORD: Final = "WRONGPASS invalid username-password pair or user is disabled."  # noqa: S105
NO_FILE: Final = (
    "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command "
    "and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the "
    "configuration."
)
_EVERYTHING: Final = (b"on", b"nopass", b"~*", b"&*", b"+@all")
_SHOWN_RULE: Final = "ERR Error in ACL SETUSER modifier '{rule}': {problem}"


class Acl:
    """The users of one server.

    Args:
        path: the ACL file, which must be there; None for none. Its line for `default` counts, not `requirepass`.
        requirepass: password of the default user; empty for none.

    Attributes:
        users: by name.
        default_user: the user of clients that have not logged in; always the same object.
        log: what was refused lately.

    Raises:
        AclFileError: the file cannot be read or has wrong lines.
    """

    def __init__(self, path: Path | None = None, requirepass: str = "") -> None:
        self.path = path
        self.default_user = _new_default()
        self.users: dict[bytes, User] = {DEFAULT_NAME: self.default_user}
        self.log = AclLog()
        self._requirepass: tuple[bytes, ...] = ()
        self.require(requirepass)
        if path is not None:
            self.replace(read_users(path))

    def require(self, requirepass: str) -> None:
        """Let this be the only password of the default user; none if it is empty."""
        password = requirepass.encode(errors="surrogateescape")
        self._requirepass = (b"resetpass", b">" + password) if password else (b"nopass",)
        self.default_user.become(self.default_user.with_rules(self._requirepass))

    # ------------------------------------------------------------------ logging in

    def authenticate(self, name: bytes, password: bytes) -> User | None:
        """The user of that name if this is a password of it and it is on; it costs as much if there is no such user."""
        user = self.users.get(name)
        if user is not None and user.accepts(password):
            return user
        if user is None:
            has_hash((), password)
        return None

    # ------------------------------------------------------------------ changes

    def set_user(self, name: bytes, words: Sequence[bytes]) -> User:
        """Make or change a user; all of the rules hold then, or none.

        Raises:
            CommandError: with Redis' text.
        """
        if has_blank(name):
            raise CommandError("ERR Usernames can't contain spaces or null characters")
        user = self.users.get(name) or User(name)
        changed = user
        try:
            for rule in merged(words):
                changed = _with_rule(changed, rule)
        except UnmatchedError as error:
            beginning = _shown(error.beginning)
            raise CommandError(f"ERR Unmatched parenthesis in acl selector starting at '{beginning}'.") from error
        user.become(changed)
        self.users[name] = user
        return user

    def delete_users(self, names: Sequence[bytes]) -> list[User]:
        """Take these users away; those that there are.

        Raises:
            CommandError: one of them is the default user.
        """
        if DEFAULT_NAME in names:
            raise CommandError("ERR The 'default' user cannot be removed")
        found = [self.users.pop(name, None) for name in names]
        return [user for user in found if user is not None]

    def replace(self, users: dict[bytes, User]) -> list[User]:
        """Let these be the users from now on; returns those that are gone.

        Users that stay keep their object, so that sessions see the change. A default user that is not among the new
        ones is as at the start.
        """
        gone = [user for name, user in self.users.items() if name not in users and user is not self.default_user]
        self.default_user.become(users.get(DEFAULT_NAME) or _new_default().with_rules(self._requirepass))
        kept = {DEFAULT_NAME: self.default_user}
        for name, user in users.items():
            if name != DEFAULT_NAME:
                kept[name] = self.users.get(name, user)
                kept[name].become(user)
        self.users = kept
        return gone

    def sorted_users(self) -> list[User]:
        """All users by name."""
        return [self.users[name] for name in sorted(self.users)]


def _new_default() -> User:
    """The default user of a server that nobody has set up: everything is allowed, without a password."""
    user = User(DEFAULT_NAME)
    user.become(user.with_rules(_EVERYTHING))
    return user


def _with_rule(user: User, rule: bytes) -> User:
    try:
        return user.with_rules((rule,))
    except RuleError as error:
        raise CommandError(_SHOWN_RULE.format(rule=_shown(rule), problem=error.problem)) from error


def _shown(rule: bytes) -> str:
    """A rule in an error's text, up to its first NUL and on one line."""
    text = rule.partition(b"\0")[0].decode(errors="surrogateescape")
    return text.replace("\r", " ").replace("\n", " ")
