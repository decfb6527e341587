"""Options that several verbs take, and how a verb reports an error."""

from __future__ import annotations

import functools
import json as json_module
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from errno import ENOSPC
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, get_type_hints

import typer

from engine.errors import CommandError, CorruptionError, StateMismatchError
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from ops.config import ConfigError, Settings
from ops.state.opening.damaged import Damaged
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.shared.errors import EventError

if TYPE_CHECKING:
    from ops.state.reports.standing import Ends, Standing

P = ParamSpec("P")
R = TypeVar("R")

Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="State directory.", show_default=".data")]
LogUrl = Annotated[
    str | None,
    typer.Option("--log", metavar="URL", help="sqlite:///FILE or kafka://HOST:PORT,…", show_default="DIR/log.sqlite3"),
]
Topic = Annotated[str | None, typer.Option(help="Name of the log.", metavar="NAME", show_default="slotlog")]
Partitions = Annotated[
    int | None, typer.Option(help="Partitions of the log; more than 1: a cluster.", metavar="N", show_default="1")
]
Layout = Annotated[
    str | None,
    typer.Option(
        "--layout", metavar="NAME", help=f"On-disk encoding: {', '.join(LAYOUTS)}.", show_default=DEFAULT_LAYOUT
    ),
]
NewLayout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="NAME",
        help=f"On-disk encoding of the new state: {', '.join(LAYOUTS)}.",
        show_default="the state's",
    ),
]
Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="URL",
        help="Redis server that is to have the sorted sets, for camellia-v1: redis://HOST:PORT/DB.",
        show_default="in the state",
    ),
]
StateTopic = Annotated[
    str | None, typer.Option("--topic", help="Name of the log.", metavar="NAME", show_default="the state's")
]
StatePartitions = Annotated[
    int | None, typer.Option("--partitions", help="Partitions of the log.", metavar="N", show_default="the state's")
]
StateOwn = Annotated[
    str | None,
    typer.Option("--own", help="Partitions to read, such as 0-3.", metavar="LIST", show_default="those that are there"),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", min=1, metavar="N", help="Partitions to build at once, in processes.", show_default="processors"
    ),
]
Database = Annotated[int, typer.Option("--db", help="Logical database, 0 to 15.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_OF_STATE = {"data": Data, "log": LogUrl, "topic": StateTopic, "partitions": StatePartitions}

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


def print_error(kind: str, message: str, *, json: bool) -> None:
    """One line on stderr, or {"error", "kind"} on stdout, where that can be written to."""
    if json:
        try:
            print_json({"error": message, "kind": kind})
            sys.stdout.flush()
        except OSError:
            forget_stdout()
        else:
            return
    print(f"slotlog: {message}", file=sys.stderr)


def forget_stdout() -> None:
    """Let what is still buffered go nowhere when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def print_note(message: str) -> None:
    """One line on stderr, for what a reader of the result must know."""
    print(f"slotlog: {message}", file=sys.stderr)


def print_standings(standings: Iterable[Standing], ends: Ends) -> None:
    """A line on stderr for each partition that is not up to its log; one where that is not known.

    Also of partitions that a service applies here: while the log is away, others may append to it, or have taken over.
    But where this verb does not know which log that is, nothing is known to be away.
    """
    standings = list(standings)
    for standing in standings:
        if text := standing.text():
            print_note(f"partition {standing.partition}: {text}")
    if ends.unknown and standings and not (ends.elsewhere and all(standing.owned for standing in standings)):
        print_note(f"how far the state is behind its log is not known: {ends.unknown}")


def parse_offsets(text: str) -> tuple[int, int] | None:
    """`120` -> (120, 121), `120-129` -> (120, 130): where it begins, and the first behind it; None for other texts."""
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text)
    if match is None:
        return None
    begin, end = int(match[1]), int(match[2] or match[1]) + 1
    return (begin, end) if begin < end else None


def listed(noun: str, numbers: Sequence[int | str]) -> str:
    """`offset 3`, `offsets 3, 7`."""
    return f"{noun if len(numbers) == 1 and '-' not in str(numbers[0]) else f'{noun}s'} {', '.join(map(str, numbers))}"


def named(damaged: Sequence[Damaged]) -> list[dict[str, Any]]:
    """Damaged partitions, for JSON."""
    return [{"partition": each.partition, "error": each.reason} for each in damaged]


def end_with_damaged(damaged: Sequence[Damaged], *, json: bool) -> None:
    """After everything else: name the partitions that could not be read, and end with exit code 1 if there are any."""
    if not damaged:
        return
    if not json:
        for each in damaged:
            print_note(each.reason)
    raise typer.Exit(1)


def reports_errors(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn an expected error into one line on stderr (or JSON with `--json`) and exit code 1.

    A reader of the output who goes away (`| head`) has what was wanted: that ends a verb, and is no error.
    """

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return _flushed(verb, *args, **kwargs)
        except typer.Exit:  # a RuntimeError, and how a verb ends that has said why
            raise
        except BrokenPipeError as error:
            forget_stdout()
            raise typer.Exit(0) from error
        except _EXPECTED as error:
            print_error(type(error).__name__, text_of(error), json=bool(kwargs.get("json")))
            raise typer.Exit(1) from error

    return wrapped


def takes_state(*, own: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a verb take the options that say which state is meant. It gets the settings in their place, as the first.

    Args:
        own: whether it may be some partitions alone.
    """
    options = {**_OF_STATE, "own": StateOwn} if own else _OF_STATE

    def decorate(verb: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(verb)
        def wrapped(**given: Any) -> R:
            from ops.logging import configure_logging
            from ops.state.opening.recorded import load_state_settings

            settings = load_state_settings(**{name: given.pop(name) for name in options})
            configure_logging(settings.log_level)
            return verb(settings, **given)

        hints = get_type_hints(verb, localns={"Settings": Settings}, include_extras=True)
        state = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=options[name]) for name in options]
        _, *others = signature(verb).parameters.values()
        others = [each.replace(annotation=hints[each.name]) for each in others]
        first = [each for each in others if each.kind is not Parameter.KEYWORD_ONLY]
        wrapped.__signature__ = Signature([*first, *state, *others[len(first) :]])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in (*others, *state)}
        return wrapped

    return decorate


def _flushed(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the verb and print all of its output, so that it is here that a closed pipe is met."""
    try:
        return verb(*args, **kwargs)
    finally:
        sys.stdout.flush()


_ROOM = ": make room, and run the same command again"


def text_of(error: BaseException) -> str:
    """What to say of an error; the operating system's own without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fspath(error.filename)}: {error.strerror}{_ROOM if error.errno == ENOSPC else ''}"
    if isinstance(error, OSError) and error.errno == ENOSPC:
        return f"{error.strerror}{_ROOM}"
    return str(error)
