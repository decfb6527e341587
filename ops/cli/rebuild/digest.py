"""`slotlog digest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ops.cli.options import (
    Json,
    end_with_damaged,
    listed,
    named,
    print_json,
    print_note,
    print_standings,
    reports_errors,
    takes_state,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from engine.proof.digest import Digest
    from engine.tables.system import Position
    from ops.config import Settings
    from ops.state.chain.noting import Noted
    from ops.state.reports.standing import Ends, Standing


class Digested(NamedTuple):
    """The digest of one partition, its position, how that stands to the log, and the chain there, if asked for."""

    partition: int
    digest: Digest
    position: Position
    standing: Standing
    chain: Noted | None


@reports_errors
@takes_state(own=True)
def digest(
    settings: Settings,
    *,
    chain: Annotated[
        bool, typer.Option("--chain", help="Print also the head of the log's hash chain at that position.")
    ] = False,
    json: Json = False,
) -> None:
    """Print a digest of all live keys in a state directory, and the position of the state.

    Equal digests at equal positions mean equal content. Batches, layout and cleaning do not change a digest. The first
    digest is the sum of those of the partitions. Offsets that an operator skipped are listed. Damaged partitions are
    not counted: they are named at the end, and the exit code is 1. Notes on stderr name partitions that are behind
    their log. With --chain the log is read, from the nearest head of its hash chain that --data keeps: the head at the
    state's position says which records stand before it, and `slotlog verify --head` holds the log against it later.

    Example: slotlog digest --data .data
    """
    from engine.proof.digest import Digest
    from ops.state.opening.damaged import read_each
    from ops.state.opening.directories import digest_partition
    from ops.state.opening.recorded import presence
    from ops.state.reports.standing import log_ends, standing_of

    here, missing = presence(settings)
    ends = log_ends(settings, here)

    def read(partition: int) -> Digested:
        digest, position = digest_partition(settings, partition)
        standing = standing_of(settings, ends, partition, position.next_offset)
        noted = _chain(settings, ends, partition, position.next_offset) if chain else None
        return Digested(partition, digest, position, standing, noted)

    results, damaged = read_each(here, read)
    total = Digest()
    for result in results:
        total += result.digest
    if json:
        print_json(
            {
                "digest": str(total),
                "keys": total.keys,
                "partitions": [_facts(result) for result in results],
                "missing": missing,
                "damaged": named(damaged),
            }
        )
    else:
        _print(total, results, several=len(here) > 1)
        if missing:
            print(f"not counted: {listed('partition', missing)}, of which {settings.data} has no state")
        if damaged:
            print(f"not counted: {listed('partition', [each.partition for each in damaged])}, damaged")
    for result in results:
        if result.chain is not None and result.chain.unknown:
            print_note(f"partition {result.partition}: the head of the chain is not known: {result.chain.unknown}")
    print_standings([result.standing for result in results], ends)
    end_with_damaged(damaged, json=json)


def _chain(settings: Settings, ends: Ends, partition: int, offset: int) -> Noted:
    """The head of the chain there, if the log answers."""
    from ops.snapshots.chain_heads import heads_of
    from ops.state.chain.noting import Noted, noted_head

    if ends.unknown:
        return Noted(None, ends.unknown)
    return noted_head(settings, partition, offset, heads_of(settings), keep=False)


def _facts(result: Digested) -> dict[str, object]:
    return {
        "partition": result.partition,
        "next_offset": result.position.next_offset,
        "clock_ms": result.position.clock_ms,
        "digest": str(result.digest),
        "keys": result.digest.keys,
        "skips": result.position.skips.texts(),
        **result.standing.facts(),
        **({} if result.chain is None else {"chain": result.chain.text}),
    }


def _print(total: Digest, results: list[Digested], *, several: bool) -> None:
    print(f"{total}  {counted(total.keys, 'key')}")
    for partition, own, position, _, chain in results:
        print(f"partition {partition}: next offset {position.next_offset}, clock {position.clock_ms} ms")
        if several:
            print(f"  digest    {own}  {counted(own.keys, 'key')}")
        if chain is not None and chain.text:
            print(f"  chain     {chain.text}")
        if position.skips:
            print(f"  skipped   {listed('offset', position.skips.texts())}")
