"""`slotlog replay`."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Data, Json, LogUrl, Partitions, Topic, print_json, reports_errors
from ops.config import ConfigError, load_settings
from ops.replay import Until


@reports_errors
def replay(
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new directory for the rebuilt state.")],
    until: Annotated[
        str | None,
        typer.Option(metavar="OFFSET|TIME", help="Stop before this offset, or before the first record at this time."),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Go past this record; may be repeated.")
    ] = None,
    data: Data = None,
    log: LogUrl = None,
    topic: Topic = None,
    partitions: Partitions = None,
    json: Json = False,
) -> None:
    """Rebuild the state from the log's start into a new directory, and compare it with --data where both are as far.

    Example: slotlog replay --data .data --to rebuilt --until 2013-01-15T00:00:00Z
    """
    from ops.logging import configure_logging
    from ops.replay import replay as run

    settings = load_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    results = asyncio.run(run(settings, to, parse_until(until), [parse_skip(text) for text in skip or []]))
    differing = [result for result in results if result.live_digest not in {None, result.digest}]
    if json:
        print_json(
            [
                {
                    "partition": result.partition,
                    "next_offset": result.next_offset,
                    "clock_ms": result.clock_ms,
                    "digest": str(result.digest),
                    "live_digest": None if result.live_digest is None else str(result.live_digest),
                }
                for result in results
            ]
        )
    else:
        for result in results:
            print(f"partition {result.partition}: next offset {result.next_offset}, {result.digest.keys} keys")
            print(f"  replayed  {result.digest}")
            if result.live_digest is not None:
                verdict = "equal" if result.live_digest == result.digest else "DIFFERENT"
                print(f"  live      {result.live_digest}  {verdict}")
    if differing:
        raise typer.Exit(1)


def parse_until(text: str | None) -> Until:
    """`120` is an offset; `2013-01-15T00:00:00Z` (or another ISO 8601 time, UTC unless it says otherwise) a time.

    Raises:
        ConfigError: neither.
    """
    if text is None:
        return Until()
    if text.isdigit():
        return Until(offset=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--until {text!r} is neither an offset nor an ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Until(time_ms=round(moment.timestamp() * 1000))


def parse_skip(text: str) -> tuple[int, int]:
    """`0:120` -> (0, 120); ConfigError when it is not PARTITION:OFFSET."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        raise ConfigError(f"--skip {text!r} is not PARTITION:OFFSET")
    return int(match[1]), int(match[2])
