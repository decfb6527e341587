"""The ACL file: one `user <name> <rule> …` line for each user, as in Redis.

It is read whole or not at all, and replaced whole or not at all: written beside itself, synced, and renamed, for the
owner's eyes only. Passwords are in it as SHA-256 hashes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from resp.acl.rules import UNKNOWN, RuleError, UnmatchedError, has_blank, merged
from resp.acl.users import User
from slotlog.disk import sync

_MODE: Final = 0o600
_NO_CHANGE: Final = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"


class AclFileError(ValueError):
    """A file that cannot be read, or has wrong lines; all of them are named, no password is."""


def read_users(path: Path) -> dict[bytes, User]:
    """The users of a file by their names.

    Raises:
        AclFileError: with Redis' text.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        message = f"Error loading ACLs, opening file '{path}': {error.strerror}"
        raise AclFileError(message) from error
    return parse_users(text, str(path))


def parse_users(text: bytes, path: str) -> dict[bytes, User]:
    """The users of a file's content; `path` is for the error's text.

    Raises:
        AclFileError: with all the lines that are wrong.
    """
    users: dict[bytes, User] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        words = line.strip(b" \t\r\n").split(b" ")
        if words == [b""]:
            continue
        problem = _parse_line(words, number, f"{path}:{number}", users)
        if problem:
            problems.append(problem)
    if problems:
        raise AclFileError("".join(problems) + _NO_CHANGE)
    return users


def write_users(path: Path, users: Iterable[User]) -> None:
    """Replace the file; after a crash either the old or the new one is there.

    Raises:
        OSError: the file is as it was.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _MODE)  # one left by a killed process may have another mode
            file.write(b"".join(user.describe() + b"\n" for user in users))
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def _parse_line(words: list[bytes], number: int, place: str, users: dict[bytes, User]) -> str:
    """Add the user of one line to `users`; what is wrong with the line, if anything, else an empty text."""
    if words[0] != b"user" or len(words) < 2:
        return f"{place} should start with user keyword followed by the username. "
    name = words[1]
    shown = name.decode(errors="surrogateescape")
    if has_blank(name):
        return f"'{place}: username '{shown}' contains invalid characters. "
    if name in users:
        return f"WARNING: Duplicate user '{shown}' found on line {number}. "
    try:
        rules = merged(words[2:])
    except UnmatchedError:
        return f"{place}: Unmatched parenthesis in selector definition."
    users[name], problems = _user_of(name, rules)
    return "".join(f"{place}: {problem}. " for problem in problems)


def _user_of(name: bytes, rules: list[bytes]) -> tuple[User, list[str]]:
    """The user, and what is wrong with its rules: every unknown command, but no more than one of all else."""
    user = User(name)
    problems: list[str] = []
    is_told = False
    for rule in (rule.strip(b"\t\r\n") for rule in rules):
        try:
            user.become(user.with_rules((rule,)))
        except RuleError as error:
            if error.problem == UNKNOWN:
                shown = rule.decode(errors="surrogateescape")
                problems.append(f"Error in applying operation '{shown}': {UNKNOWN}")
            elif not is_told:
                is_told = True
                problems.append(error.problem)
    return user, problems
