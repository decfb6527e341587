"""Options that several verbs take, and how a verb reports an error."""

from __future__ import annotations

import functools
import json as json_module
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from engine.errors import CommandError, CorruptionError, EventError, StateMismatchError
from ingest.errors import LogMismatchError, LogUnavailableError
from ops.config import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="State directory.", show_default=".data")]
LogUrl = Annotated[
    str | None,
    typer.Option("--log", metavar="URL", help="sqlite:///FILE or kafka://H:P,…", show_default="DIR/log.sqlite3"),
]
Topic = Annotated[str | None, typer.Option(help="Name of the log.", metavar="NAME", show_default="slotlog")]
Partitions = Annotated[
    int | None, typer.Option(help="Partitions of the log: 1 standalone, more a cluster.", metavar="N", show_default="1")
]
Database = Annotated[int, typer.Option("--db", help="Logical database, 0 to 15.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_EXPECTED = (
    ConfigError,
    StateMismatchError,
    CorruptionError,
    EventError,
    CommandError,
    LogMismatchError,
    LogUnavailableError,
    OSError,
    RuntimeError,
    ValueError,
)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json_module.dumps(value, ensure_ascii=False))


def reports_errors(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn an expected error into one line on stderr (or JSON with `--json`) and exit code 1."""

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except typer.Exit:  # a RuntimeError, and how a verb ends that has said why
            raise
        except _EXPECTED as error:
            if kwargs.get("json"):
                print_json({"error": str(error), "kind": type(error).__name__})
            else:
                print(f"slotlog: {error}", file=sys.stderr)
            raise typer.Exit(1) from error

    return wrapped
