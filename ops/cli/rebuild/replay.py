"""`slotlog replay`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.proof.digest import Digest
from ops.cli.imports import INTERRUPTED
from ops.cli.options import (
    Data,
    Index,
    Json,
    LogUrl,
    NewLayout,
    Processes,
    StatePartitions,
    StateTopic,
    listed,
    parse_offsets,
    print_error,
    print_json,
    print_note,
    reports_errors,
)
from ops.cli.past.what_if import WITHOUT_HELP
from ops.config import ConfigError, load_settings
from ops.state.rebuilding.replay_plan import Gap, Start, Until, parse_until
from ops.state.rebuilding.swap import rebuilt_in, replaced_in
from ops.state.rebuilding.unapplied import NotApplied
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.state.rebuilding.replay import Replayed


_Swap = Annotated[
    bool,
    typer.Option("--swap", help="Put the rebuilt state in the place of that in --data, whose service is stopped."),
]
_Different = Annotated[bool, typer.Option("--even-if-different", help="With --swap: also where the two states differ.")]
_KeepOld = Annotated[bool, typer.Option("--keep-old", help="With --swap: keep the old state, in DATA/replaced.")]
_Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="OFFSET|TIME",
        help="Stop before this offset, or before the first record at this time: ISO 8601, or @ and ms since 1970.",
    ),
]
_FromSnapshot = Annotated[
    bool,
    typer.Option(
        "--from-snapshot",
        help="Start from the newest snapshot before the end, as a replay always does where the log was cut.",
    ),
]
_Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="PARTITION:OFFSET",
        help="Skip this record, or FIRST-LAST, and those that the state in --data skips; may be repeated.",
    ),
]
_Without = Annotated[
    list[str] | None, typer.Option("--without", metavar="OFFSETS|FILTER", help=f"{WITHOUT_HELP} Only with --to.")
]
_MetricsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the progress to this file, for node_exporter's textfile collector."),
]


@reports_errors
def replay(
    *,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="A new directory for the rebuilt state.")] = None,
    swap: _Swap = False,
    even_if_different: _Different = False,
    keep_old: _KeepOld = False,
    until: _Until = None,
    from_snapshot: _FromSnapshot = False,
    skip: _Skip = None,
    without: _Without = None,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: Annotated[str | None, typer.Option(help="Partitions to rebuild, such as 0-3.", show_default="all")] = None,
    layout: NewLayout = None,
    index: Index = None,
    processes: Processes = None,
    metrics_file: _MetricsFile = None,
    json: Json = False,
) -> None:
    """Rebuild the state from the log into a new directory, and compare it with --data at the same position.

    The new state may have another layout: live keys, and therefore the digest, are the same in every layout. Records
    that the state in --data skips (`slotlog skip`) are skipped again. Several partitions are built at once, in
    processes. If the command is killed or fails, the directory holds no state, and the same command begins anew.

    --without skips events as if they had never been (`slotlog whatif` prints what would differ). --swap builds in
    DATA/rebuilt, up to the position of the state in --data, and replaces that if both have one digest, or if it cannot
    be read. Its service must be stopped.

    The exit code is 1 if a digest differs, if the log ends before the position of the state in --data, or if records of
    the embedded log that this state has applied can no longer be applied.

    Example: slotlog replay --data .data --to rebuilt --until 2013-01-15T00:00:00Z
    """
    from ops.logging import configure_logging
    from ops.metrics.textfile import ReplayFile
    from ops.state.opening.recorded import load_state_settings
    from ops.state.rebuilding.replay import replay_at_once, tell_nobody
    from ops.state.rebuilding.swap import finish_swap, out_of_use
    from ops.state.rebuilding.swap import swap as put_in_place

    _refuse_usage(to, until, layout, without, swap=swap, other=even_if_different or keep_old)
    if swap:
        finish_swap(load_settings(data=data).data)  # of an earlier one: what is read next is there again then
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    tell = tell_nobody if metrics_file is None else ReplayFile(metrics_file).note
    end = Until(at_live=True) if swap else parse_until(until)
    left_out = _left_out(settings, without, end)
    skips = [*left_out, *(parse_skip(text) for text in skip or [])]
    built = to or rebuilt_in(settings.data)
    build = partial(replay_at_once, settings, built, end, skips, start=_start(left_out), from_snapshot=from_snapshot)
    with out_of_use(settings.data, settings.owned) if swap else nullcontext():
        with _interruptible(built, json=json):
            results = build(layout=layout, index=index, processes=processes, tell=tell)
        failed = _tell_failures(results, whole=until is None, alike=not without)
        swapped = swap and (not failed or even_if_different)
        if swapped:
            put_in_place(settings.data, settings.owned, keep=keep_old)
    if json:
        _print_json(results, {"swapped": swapped} if swap else {})
    else:
        _print(results)
    if swap:
        _tell_swapped(settings, swapped=swapped, keep_old=keep_old, json=json)
    if failed:
        raise typer.Exit(1)


@contextmanager
def _interruptible(built: Path, *, json: bool) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        print_error("Interrupted", f"interrupted: {built} holds no state; the same command begins anew", json=json)
        raise typer.Exit(INTERRUPTED) from None


def _refuse_usage(
    to: Path | None, until: str | None, layout: str | None, without: list[str] | None, *, swap: bool, other: bool
) -> None:
    if (to is None) != swap:
        raise typer.BadParameter("--to names a new directory, --swap puts the state in place: give one of the two")
    if swap and (until is not None or layout is not None):
        raise typer.BadParameter("--swap rebuilds the state at the same position and in the same layout")
    if swap and without:
        raise typer.BadParameter("--without builds another state than that in --data: give --to")
    if other and not swap:
        raise typer.BadParameter("--even-if-different and --keep-old belong to --swap")


def _tell_swapped(settings: Settings, *, swapped: bool, keep_old: bool, json: bool) -> None:
    """Say what became of the rebuilt state."""
    if not swapped:
        print_note(
            f"nothing was put in place, and what was built is in {rebuilt_in(settings.data)}: remove it, and run the"
            " command again with --even-if-different where the log is right"
        )
    elif not json:
        old = f"the old state is in {replaced_in(settings.data)}" if keep_old else "the old state is removed"
        print(f"{settings.data} has the rebuilt state, and {old}")


def _left_out(settings: Settings, without: list[str] | None, until: Until) -> list[tuple[int, int, int]]:
    """What is to be skipped, so that the state is as if these events had never been."""
    from ops.past.left_out import chosen, parse_choice

    if not without:
        return []
    choice = parse_choice(without, settings.partitions)
    return [
        (partition, *each)
        for partition in settings.owned
        for each in asyncio.run(chosen(settings, partition, choice, until))
    ]


def _start(left_out: list[tuple[int, int, int]]) -> Start:
    """Begins with a snapshot from before all that is left out."""
    from ops.snapshots.starting import start_from_snapshot

    def start(target: Settings, gap: Gap) -> int:
        firsts = [begin for partition, begin, _ in left_out if partition == gap.partition]
        return start_from_snapshot(target, replace(gap, end=min([gap.end, *firsts])))

    return start


def _tell_failures(results: list[Replayed], *, whole: bool, alike: bool) -> bool:
    """Print what keeps the rebuilt state from being the live one. Returns whether there is anything.

    Args:
        results: of the partitions.
        whole: whether it was to reach the live state's position.
        alike: whether it was to be like it there.
    """
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
            f"everything before {result.live_offset}: the log is another one, or was cut, and what came after is not "
            "in the state that was built"
        )
    different = alike and any(result.live_digest not in {None, result.digest} for result in results)
    return bool(cut) or different or any(result.not_applied.newly_dead for result in results)


def _print_json(results: list[Replayed], more: dict[str, Any]) -> None:
    total, live = _totals(results)
    print_json(
        {
            **more,
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
        if first := result.not_applied.first_rejected:
            print(f"  the first rejected: {first}")
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


def parse_skip(text: str) -> tuple[int, int, int]:
    """`0:120` -> (0, 120, 121), `0:120-129` -> (0, 120, 130); ConfigError when it is neither."""
    partition, _, offsets = text.partition(":")
    if not re.fullmatch(r"[0-9]{1,9}", partition) or (parsed := parse_offsets(offsets)) is None:
        raise ConfigError(f"--skip {text!r} is not PARTITION:OFFSET or PARTITION:FIRST-LAST")
    return int(partition), *parsed
