"""The group of all verbs: its help and its usage errors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import typer
from typer.core import TyperGroup

from ops.cli.options import forget_stdout, print_error, text_of

RUN: Final = "Run"
EVENTS: Final = "Send and read"
REBUILD: Final = "Rebuild and compare"
PAST: Final = "Look into the past"
KEEP: Final = "Back up and restore"
REPAIR: Final = "Check and repair"
OTHER: Final = "Other"

GROUPS: Final = (RUN, EVENTS, PAST, REBUILD, KEEP, REPAIR, OTHER)
"""The groups of verbs, in the order of the help. A verb names its own as `rich_help_panel`."""

_PATHS: Final = frozenset({"DIR", "FILE", "PATH"})
"""What the help calls the value of an option that is a path."""


class Program(TyperGroup):
    """The verbs. With `--json` wrong usage is said in JSON as well; its exit code is 2 either way."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run the words of `args`, or those of the command line."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            return self._run(words, *rest, **extra)
        except OSError as error:  # the help or a usage error could not be written; a verb tells of its own
            print_error(type(error).__name__, text_of(error), json=False)
            forget_stdout()
            sys.exit(1)

    def _run(self, words: list[str], *rest: Any, **extra: Any) -> Any:
        if "--json" not in words:
            return super().main(words, *rest, **extra)
        try:
            status = super().main(words, *rest, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            print_error("UsageError", error.format_message(), json=True)
            status = error.exit_code
        sys.exit(status)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the words name, with the words behind it. An empty path among these is wrong usage."""
        name, command, rest = super().resolve_command(ctx, args)
        _refuse_empty_paths(ctx, command, rest)
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs by group, each with the whole of its first sentence."""
        for group in GROUPS:
            rows = [
                (name, first_sentence(command.help or ""))
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == group
            ]
            with formatter.section(group):
                formatter.write_dl(rows)


def _refuse_empty_paths(ctx: Any, command: Any, words: list[str]) -> None:
    """Refuse what would be the working directory otherwise, as `--to "$DIR"` is where nothing is in DIR."""
    inner = getattr(command, "commands", {}).get(words[0]) if words else None
    if inner is not None:
        _refuse_empty_paths(ctx, inner, words[1:])
        return
    options = {each for param in command.params if getattr(param, "metavar", None) in _PATHS for each in param.opts}
    own = words[: words.index("--")] if "--" in words else words
    for word, following in pairwise([*own, "behind the last"]):
        option = word.removesuffix("=")
        if option in options and (word != option or not following):
            raise typer.BadParameter(f"{option} has an empty path: name one, or leave the option out", ctx)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."
