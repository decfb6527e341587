"""`slotlog produce`."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ops.cli.imports import INTERRUPTED
from ops.cli.options import Data, Json, LogUrl, Partitions, Topic, print_json, print_note, reports_errors
from ops.config import Settings, load_settings
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.sending.produce import Produced

_INTERRUPTED: Final = "interrupted; what was being sent at that moment may be in the log as well"


class Format(StrEnum):
    """The format of the input."""

    AUTO = "auto"
    JSON = "json"
    MSGPACK = "msgpack"


@reports_errors
def produce(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="File of events; - is standard input.")],
    *,
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option("--format", help="Format of the file; auto looks at its first byte.")
    ] = Format.AUTO,
    data: Data = None,
    log: LogUrl = None,
    topic: Topic = None,
    partitions: Partitions = None,
    check: Annotated[
        bool, typer.Option("--check", help="Send nothing; print which lines cannot be sent, and why.")
    ] = False,
    json: Json = False,
) -> None:
    """Append events to the log: JSON Lines, or a msgpack stream of the same maps.

    A line is {"cmd": "SET", "args": ["k", "v"]}, optionally with "id", "db" and "time". Bytes that are not UTF-8 are
    written as {"base64": "…"}. "time" is in ms since 1970. Only the embedded log takes it, and never goes back: for an
    earlier time a record gets that of the one before, and a note says of how many that is so. An event without a key
    goes to every partition. At the first line that cannot be sent, the command stops; all lines before it are sent.
    With --check it sends nothing, and names every line that cannot be sent.

    Example: slotlog produce events.jsonl --log kafka://127.0.0.1:9092 --topic orders --partitions 8
    """
    from ops.logging import configure_logging
    from ops.sending.produce import Produced

    settings = load_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    if check:
        _check(settings, file, format, json=json)
        return
    produced = Produced()
    with _opened(file) as fd:
        try:
            _run(settings, fd, format, produced)
        except KeyboardInterrupt:
            produced.failure = _INTERRUPTED
    if json:
        print_json(_facts(produced))
    else:
        _print(produced)
    if produced.later_times:
        late = counted(produced.later_times, "record")
        print_note(f"{late} got a later time than asked for, as the log's time never goes back")
    if produced.failure:
        raise typer.Exit(INTERRUPTED if produced.failure == _INTERRUPTED else 1)


def _check(settings: Settings, file: str, format_name: str, *, json: bool) -> None:
    from ops.progress import progress
    from ops.sending.produce_check import check

    with _opened(file) as fd, progress("check", _size_of(fd), "bytes") as advance:
        checked = asyncio.run(check(settings, fd, format_name, advance))
    more = checked.faults - len(checked.first_faults)
    if json:
        print_json({"events": checked.events, "faults": checked.faults, "first_faults": checked.first_faults})
    else:
        for fault in checked.first_faults:
            print_note(fault)
        if more:
            print_note(f"and {counted(more, 'more fault')}")
        print(f"{counted(checked.events, 'event')} can be sent, {checked.faults} cannot; nothing was sent")
    if checked.faults:
        raise typer.Exit(1)


def _size_of(fd: int) -> int | None:
    """Bytes of a file; None of what has no end that is known."""
    status = os.fstat(fd)
    return status.st_size if S_ISREG(status.st_mode) else None


def _run(settings: Settings, fd: int, format_name: str, produced: Produced) -> None:
    from ops.progress import progress
    from ops.sending.produce import produce as run

    with progress("produce", _size_of(fd), "bytes") as advance:
        asyncio.run(run(settings, fd, format_name, advance, produced))


@contextmanager
def _opened(file: str) -> Iterator[int]:
    """A descriptor: what is read from it goes past no buffer, so that waiting for it can be interrupted."""
    if file == "-":
        yield sys.stdin.fileno()
        return
    fd = os.open(Path(file), os.O_RDONLY)
    try:
        if S_ISDIR(os.fstat(fd).st_mode):  # a read of it would fail without its name
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
        yield fd
    finally:
        os.close(fd)


def _facts(produced: Produced) -> dict[str, object]:
    spans = sorted(produced.spans.items())
    kind = "Interrupted" if produced.failure == _INTERRUPTED else "SendError"
    return {
        "events": produced.events,
        "partitions": [
            {
                "partition": partition,
                "records": span.records,
                "first_offset": span.first_offset,
                "last_offset": span.last_offset,
            }
            for partition, span in spans
        ],
        "later_times": produced.later_times,
        **({"error": produced.failure, "kind": kind} if produced.failure else {}),
    }


def _print(produced: Produced) -> None:
    print(f"{counted(produced.events, 'event')} appended")
    for partition, span in sorted(produced.spans.items()):
        records = counted(span.records, "record")
        print(f"partition {partition}: {records}, offsets {span.first_offset} to {span.last_offset}")
    if produced.failure:
        print_note(produced.failure)
