"""HELP of every container command, made from the usage lines."""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.commands.registry import SPECS, Spec
from engine.values.replies import Reply, Status
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec
from resp.commands.handlers import server_command

_CATEGORIES: Final = {
    **dict.fromkeys((b"CLIENT", b"COMMAND"), ("slow", "connection")),
    **dict.fromkeys((b"FUNCTION", b"SCRIPT"), ("slow", "scripting")),
    b"OBJECT": ("keyspace", "slow"),
    **dict.fromkeys((b"XGROUP", b"XINFO"), ("slow", "stream")),
}


def help_of(container: bytes) -> list[Status]:
    """What `CONTAINER HELP` answers: a usage line and what it does, for each subcommand."""
    lines = [b"%b <subcommand> [<arg> [value] [opt] ...]. Subcommands are:" % container]
    for spec in _subcommands(container):
        if not spec.name.endswith(b"|HELP"):
            lines.append(spec.usage.partition(" ")[2].encode())
            lines.append(b"    " + " ".join(spec.summary.split()).encode())
    return [Status(line) for line in (*lines, b"HELP", b"    Print this help.")]


def _subcommands(container: bytes) -> list[Spec | ServerSpec]:
    start = container + b"|"
    specs: list[Spec | ServerSpec] = [spec for name, spec in SERVER_SPECS.items() if name.startswith(start)]
    return specs + [spec for name, spec in SPECS.items() if name.startswith(start)]


def add_help() -> None:
    """Register HELP for every container; to be called when all commands are registered."""
    specs: dict[bytes, Spec | ServerSpec] = {**SPECS, **SERVER_SPECS}
    for name in sorted(specs):
        container, separator, _ = name.partition(b"|")
        if separator and container + b"|HELP" not in SERVER_SPECS:
            _register(container, specs[name])


def _answer(container: bytes, client: object, args: list[bytes]) -> Reply:
    """Print this help."""
    return help_of(container)


def _register(container: bytes, like: Spec | ServerSpec) -> None:
    handler = partial(_answer, container)
    handler.__doc__ = _answer.__doc__
    server_command(
        f"{container.decode()} HELP",
        group=like.group,
        since=like.since,
        of=like.of,
        flags=("loading", "stale"),
        categories=_CATEGORIES.get(container, ("slow",)),
        immediate=True,
        container=True,
    )(handler)
