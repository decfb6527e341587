"""Removes secrets from commands, for MONITOR and SLOWLOG."""

from __future__ import annotations

from typing import Any, Final

REDACTED: Final = b"(redacted)"

_SECRET_SETTINGS: Final = frozenset(
    {b"requirepass", b"masterauth", b"primaryauth", b"masteruser", b"primaryuser", b"tls-key-file-pass"}
    | {b"tls-client-key-file-pass"}
)
_ACL_WITH_SECRETS: Final = frozenset({b"SETUSER", b"DELUSER", b"GETUSER"})


def redacted(command: list[Any]) -> list[Any]:
    """The command with `(redacted)` for every argument that is, or may be, a password or tells about users.

    Args:
        command: name and arguments as the client sent them.
    """
    if len(command) < 2 or not isinstance(command[0], bytes):
        return command
    name = command[0].upper()
    if name == b"AUTH":
        return [command[0], *[REDACTED] * (len(command) - 1)]
    if name == b"HELLO":
        return _hello(command)
    if name == b"ACL" and command[1].upper() in _ACL_WITH_SECRETS:
        return [*command[:2], *[REDACTED] * (len(command) - 2)]
    if name == b"CONFIG" and command[1].upper() == b"SET":
        return _config_set(command)
    return command


def _hello(command: list[bytes]) -> list[bytes]:
    """`HELLO 3 AUTH name password`; both, as AUTH does."""
    shown = list(command)
    for at, word in enumerate(command):
        if word.upper() == b"AUTH":
            shown[at + 1 : at + 3] = [REDACTED] * len(command[at + 1 : at + 3])
            break
    return shown


def _config_set(command: list[bytes]) -> list[bytes]:
    shown = list(command)
    for at in range(3, len(command), 2):
        if command[at - 1].lower() in _SECRET_SETTINGS:
            shown[at] = REDACTED
    return shown
