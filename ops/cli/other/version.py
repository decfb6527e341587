"""`slotlog version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from engine.tables.system import FORMAT, RULES
from ops.cli.options import Json, print_json, reports_errors
from ops.version import VERSION


def print_version(wanted: bool) -> None:
    """The option `--version`: one line, and the end."""
    if wanted:
        print(f"slotlog {VERSION}")
        raise typer.Exit


@reports_errors
def version(*, json: Json = False) -> None:
    """Print the versions of slotlog, of its rules and format, and of its libraries.

    Example: slotlog version --json
    """
    facts = {
        "slotlog": VERSION,
        "rules": RULES,
        "format": FORMAT,
        "python": platform.python_version(),
        "rocksdict": version_of("rocksdict"),
        "aiokafka": version_of("aiokafka"),
    }
    if json:
        print_json(facts)
    else:
        print("\n".join(f"{name:<10} {fact}" for name, fact in facts.items()))
