"""`slotlog chain`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    print_json,
    print_note,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.state.chain.checking import Checked

_KEEPERS = ("a head in DATA/chain", "the manifest of a snapshot", "a given head")
"""By keeper: who says so."""


@reports_errors
def chain(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    at: Annotated[
        int | None, typer.Option("--at", min=0, metavar="OFFSET", help="The heads there.", show_default="the log's end")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compute the chain anew, and hold it against all heads that are known.")
    ] = False,
    head: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="PARTITION:OFFSET:HEAD",
            help="Hold the log against this head, noted earlier; may be repeated. Implies --check.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the head of the hash chain over each partition's records, or hold the log against heads noted earlier.

    Whoever keeps the lines that this verb prints can find out later whether a record before that offset was changed,
    taken out, put in or exchanged. --check reads the log from its start and compares the chain with the heads that
    --data keeps, those in the manifests of snapshots (SLOTLOG_SNAPSHOTS__URL), and the given ones. If a record is
    another one, the range of its offset is named, and the exit code is 1.

    Example: slotlog chain --at 1000; slotlog chain --check --head 0:1000:b9269b3f…
    """
    from ops.logging import configure_logging
    from ops.past.proof.noted import parse_heads
    from ops.state.opening.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    if not check and not head:
        _print_heads(settings, at, json=json)
        return
    if at is not None:
        raise typer.BadParameter("--check looks at all of the log: leave --at out")
    given = parse_heads(head or [], settings.partitions)
    note_missing_snapshots(settings)
    results = [asyncio.run(_check(settings, each, given.get(each, []))) for each in settings.owned]
    is_right = all(each.is_right for each in results)
    if json:
        print_json({"right": is_right, "partitions": [chain_facts(each) for each in results]})
    else:
        for each in results:
            print(f"partition {each.partition}:")
            print_chain(each)
    if not is_right:
        raise typer.Exit(1)


async def _check(settings: Settings, partition: int, given: list[Any]) -> Checked:
    from ops.past.proof.noted import check_log

    return await check_log(settings, partition, given)


def _print_heads(settings: Settings, at: int | None, *, json: bool) -> None:
    found = asyncio.run(_heads(settings, at))
    if json:
        print_json(
            {
                "partitions": [
                    {"partition": partition, "offset": offset, "head": head.hex()} for partition, offset, head in found
                ]
            }
        )
        return
    for partition, offset, head in found:
        print(f"{partition}:{offset}:{head.hex()}")


async def _heads(settings: Settings, at: int | None) -> list[tuple[int, int, bytes]]:
    from ops.snapshots.chain_heads import heads_of
    from ops.state.chain.walking import head_at
    from ops.state.opening.directories import prepare_data
    from ops.state.rebuilding.replay_plan import opened

    prepare_data(settings)
    log = opened(settings)
    await log.start()
    try:
        found, others = [], heads_of(settings)
        for partition in settings.owned:
            offset = await log.end_offset(partition) if at is None else at
            found.append((partition, offset, await head_at(settings, log, partition, offset, others, keep=True)))
        return found
    finally:
        await log.close()


def note_missing_snapshots(settings: Settings) -> None:
    """Say it where the directory of snapshots is not there, so that no head of one is compared."""
    from ops.snapshots.objects import missing_directory

    directory = missing_directory(settings.snapshots.url)
    if directory is not None:
        print_note(
            f"there is no directory {directory}, so no snapshots yet, and no heads of theirs to compare the log with."
            " If some were taken, is SLOTLOG_SNAPSHOTS__URL right, and is its disk mounted?"
        )


def chain_facts(checked: Checked) -> dict[str, Any]:
    """A log that was held against heads, for JSON."""
    return {
        "partition": checked.partition,
        "begin_offset": checked.begin,
        "end_offset": checked.end,
        "head": None if checked.head is None else checked.head.hex(),
        "compared": checked.compared,
        "changed": [
            {"from": each.begin, "to": each.end - 1, "kept_by": each.keeper.name.lower()} for each in checked.changed
        ],
        "lost": list(checked.lost),
        "not_compared": list(checked.uncompared),
    }


def print_chain(checked: Checked) -> None:
    """Print what a log that was held against heads came to."""
    if checked.begin is None:
        print("  log       its chain is not known: its first records are gone, and no head from there on was noted")
    elif checked.is_right:
        none = "no other head of it was noted" if checked.begin else "no head of it was noted yet"
        heads = f"equal to {counted(checked.compared, 'head')}" if checked.compared else none
        print(f"  log       offsets {checked.begin} to {checked.end}: {heads}")
    if checked.head is not None:
        print(f"  chain     {checked.head.hex()}")
    for begin, end, keeper in checked.changed:
        where = f"between offset {begin} and offset {end - 1}" if end else "before its first record"
        print(f"  log       CHANGED {where}, as {_KEEPERS[keeper]} says")
    for offset in checked.uncompared:
        print(f"  log       NOT COMPARED with the given head of offset {offset}: no head before it is known")
    for offset in checked.lost:
        print(f"  log       CUT: it ends at offset {checked.end}, and a head of offset {offset} was noted")
