"""Removes secrets from commands, for MONITOR and SLOWLOG."""

from __future__ import annotations

from typing import Any, Final

from resp.catalog.server_registry import CONTAINERS, SERVER_SPECS

REDACTED: Final = b"(redacted)"

_SECRET_SETTINGS: Final = frozenset(
    {b"requirepass", b"masterauth", b"primaryauth", b"masteruser", b"primaryuser", b"tls-key-file-pass"}
    | {b"tls-client-key-file-pass"}
)


def redacted(command: list[Any]) -> list[Any]:
    """The command with `(redacted)` for every argument that is, or may be, a password or tells about users.

    Args:
        command: name and arguments as the client sent them.
    """
    if len(command) < 2 or not isinstance(command[0], bytes):
        return command
    name, width = command[0].upper(), 1
    if name in CONTAINERS:
        name, width = b"%b|%b" % (name, command[1].upper()), 2
    spec = SERVER_SPECS.get(name)
    return command if spec is None or spec.redact is None else [*command[:width], *spec.redact(command[width:])]


def all_arguments(args: list[bytes]) -> list[bytes]:
    """Nothing of them is shown."""
    return [REDACTED] * len(args)


def behind_auth(args: list[bytes]) -> list[bytes]:
    """Name and password of `3 AUTH name password`."""
    shown = list(args)
    for at, word in enumerate(args):
        if word.upper() == b"AUTH":
            shown[at + 1 : at + 3] = all_arguments(args[at + 1 : at + 3])
            break
    return shown


def secret_parameters(args: list[bytes]) -> list[bytes]:
    """The values of parameters that are passwords, in `parameter value [parameter value ...]`."""
    shown = list(args)
    for at in range(1, len(args), 2):
        if args[at - 1].lower() in _SECRET_SETTINGS:
            shown[at] = REDACTED
    return shown
