"""`slotlog replay`."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.proof.digest import Digest
from ops.cli.options import (
    Data,
    Index,
    Json,
    LogUrl,
    NewLayout,
    StatePartitions,
    StateTopic,
    listed,
    parse_offsets,
    print_json,
    print_note,
    reports_errors,
)
from ops.config import ConfigError
from ops.state.replay import Replayed, Until
from ops.state.unapplied import NotApplied
from slotlog.wording import counted


@reports_errors
def replay(
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new directory for the rebuilt state.")],
    until: Annotated[
        str | None,
        typer.Option(
            metavar="OFFSET|TIME",
            help="Stop before this offset, or before the first record at this time: ISO 8601, or @ and ms since 1970.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION:OFFSET",
            help="Skip this record, or FIRST-LAST, and those that the state in --data skips; may be repeated.",
        ),
    ] = None,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: Annotated[str | None, typer.Option(help="Partitions to rebuild, such as 0-3.", show_default="all")] = None,
    layout: NewLayout = None,
    index: Index = None,
    metrics_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the progress to this file, for node_exporter's textfile collector."),
    ] = None,
    json: Json = False,
) -> None:
    """Rebuild the state from the log into a new directory, and compare it with --data at the same position.

    The new state may have another layout: live keys, and therefore the digest, are the same in every layout. Records
    that the state in --data skips (`slotlog skip`) are skipped again.

    The exit code is 1 if a digest differs, if the log ends before the position of the state in --data, or if records of
    the embedded log that this state has applied can no longer be applied.

    Example: slotlog replay --data .data --to rebuilt --until 2013-01-15T00:00:00Z
    """
    from ops.logging import configure_logging
    from ops.metrics.textfile import ReplayFile
    from ops.state.recorded import load_state_settings
    from ops.state.replay import replay as run

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    tell = ReplayFile(metrics_file).note if metrics_file is not None else None
    skips = [parse_skip(text) for text in skip or []]
    results = asyncio.run(run(settings, to, parse_until(until), skips, layout=layout, index=index, tell=tell))
    if json:
        _print_json(results)
    else:
        _print(results)
    if _tell_failures(results, whole=until is None):
        raise typer.Exit(1)


def _tell_failures(results: list[Replayed], *, whole: bool) -> bool:
    """Print what keeps the rebuilt state from being the live one. Returns whether there is anything."""
    for result in results:
        if newly_dead := result.not_applied.newly_dead:
            print_note(
                f"partition {result.partition}: {listed('offset', newly_dead)} cannot be applied, and no dead letter "
                "says so of their first life: damaged since, or their letters were deleted"
            )
    cut = [result for result in results if whole and result.next_offset < result.live_offset]
    for result in cut:
        print_note(
            f"partition {result.partition}: the log ends at offset {result.next_offset}, but --data has applied "
            f"everything before {result.live_offset}: the log is another one, or was cut, and what was behind is not "
            "in the state that was built"
        )
    different = any(result.live_digest not in {None, result.digest} for result in results)
    return bool(cut) or different or any(result.not_applied.newly_dead for result in results)


def _print_json(results: list[Replayed]) -> None:
    total, live = _totals(results)
    print_json(
        {
            "digest": str(total),
            "keys": total.keys,
            "live_digest": _text(live),
            "partitions": [_facts(result) for result in results],
        }
    )


def _facts(result: Replayed) -> dict[str, Any]:
    return {
        "partition": result.partition,
        "next_offset": result.next_offset,
        "clock_ms": result.clock_ms,
        "digest": str(result.digest),
        "keys": result.digest.keys,
        "skips": result.skips.texts(),
        "live_digest": _text(result.live_digest),
        "not_applied": asdict(result.not_applied),
        **({"note": result.note} if result.note else {}),
    }


def _print(results: list[Replayed]) -> None:
    for result in results:
        keys = counted(result.digest.keys, "key")
        print(f"partition {result.partition}: next offset {result.next_offset}, {keys}")
        if result.skips:
            print(f"  skipped   {listed('offset', result.skips.texts())}")
        _print_digests(result.digest, result.live_digest)
        if not_applied := _not_applied(result.not_applied):
            print(f"  not applied: {not_applied}")
        if result.note:
            print(f"  live      not compared: {result.note}")
    if len(results) > 1:
        total, live = _totals(results)
        print(f"all: {counted(total.keys, 'key')}")
        _print_digests(total, live)


def _not_applied(counts: NotApplied) -> str:
    parts = (
        (counts.dead_letters, "dead letter"),
        (counts.rejected, "rejected command"),
        (counts.duplicates, "duplicate"),
    )
    return ", ".join(counted(number, noun) for number, noun in parts if number)


def _print_digests(digest: Digest, live: Digest | None) -> None:
    print(f"  replayed  {digest}")
    if live is not None:
        print(f"  live      {live}  {'equal' if live == digest else 'DIFFERENT'}")


def _totals(results: list[Replayed]) -> tuple[Digest, Digest | None]:
    """The sums of the digests; the second is None where a live one is not known."""
    total, live = Digest(), Digest()
    for result in results:
        total += result.digest
        live += result.live_digest or Digest()
    return total, None if any(result.live_digest is None for result in results) else live


def _text(digest: Digest | None) -> str | None:
    return None if digest is None else str(digest)


def parse_until(text: str | None) -> Until:
    """`120` is an offset; `@1358208000000` (ms since 1970) and `2013-01-15T00:00:00Z` (ISO 8601) are times.

    A time that does not say where it holds is one of UTC.

    Raises:
        ConfigError: none of them.
    """
    if text is None:
        return Until()
    number = re.fullmatch(r"(@?)([0-9]+)", text)
    if number is not None:
        return Until(time_ms=int(number[2])) if number[1] else Until(offset=int(number[2]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--until {text!r} is neither an offset nor an ISO 8601 time nor @MILLISECONDS") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Until(time_ms=round(moment.timestamp() * 1000))


def parse_skip(text: str) -> tuple[int, int, int]:
    """`0:120` -> (0, 120, 121), `0:120-129` -> (0, 120, 130); ConfigError when it is neither."""
    partition, _, offsets = text.partition(":")
    if not re.fullmatch(r"[0-9]{1,9}", partition) or (parsed := parse_offsets(offsets)) is None:
        raise ConfigError(f"--skip {text!r} is not PARTITION:OFFSET or PARTITION:FIRST-LAST")
    return int(partition), *parsed
