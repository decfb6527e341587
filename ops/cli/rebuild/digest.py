"""`slotlog digest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    StateOwn,
    StatePartitions,
    StateTopic,
    end_with_damaged,
    listed,
    named,
    print_json,
    print_standings,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from engine.proof.digest import Digest
    from engine.tables.system import Position
    from ops.state.standing import Standing


class Digested(NamedTuple):
    """The digest of one partition, the position that it stands for, and how that stands to the log."""

    partition: int
    digest: Digest
    position: Position
    standing: Standing


@reports_errors
def digest(
    *,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    json: Json = False,
) -> None:
    """Print a digest of all live keys in a state directory, and the position of the state.

    Equal digests at equal positions mean equal content. Batches, layout and cleaning do not change a digest. The first
    digest is the sum of those of the partitions. Offsets that an operator skipped are listed. Damaged partitions are
    not counted: they are named at the end, and the exit code is 1. Notes on stderr name partitions that are behind
    their log.

    Example: slotlog digest --data .data
    """
    from engine.proof.digest import Digest
    from ops.logging import configure_logging
    from ops.state.damaged import read_each
    from ops.state.directories import digest_partition
    from ops.state.recorded import load_state_settings, presence
    from ops.state.standing import log_ends, standing_of

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    here, missing = presence(settings)
    ends = log_ends(settings, here)

    def read(partition: int) -> Digested:
        digest, position = digest_partition(settings, partition)
        return Digested(partition, digest, position, standing_of(settings, ends, partition, position.next_offset))

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
    print_standings([result.standing for result in results], ends)
    end_with_damaged(damaged, json=json)


def _facts(result: Digested) -> dict[str, object]:
    return {
        "partition": result.partition,
        "next_offset": result.position.next_offset,
        "clock_ms": result.position.clock_ms,
        "digest": str(result.digest),
        "keys": result.digest.keys,
        "skips": result.position.skips.texts(),
        **result.standing.facts(),
    }


def _print(total: Digest, results: list[Digested], *, several: bool) -> None:
    print(f"{total}  {counted(total.keys, 'key')}")
    for partition, own, position, _ in results:
        print(f"partition {partition}: next offset {position.next_offset}, clock {position.clock_ms} ms")
        if several:
            print(f"  digest    {own}  {counted(own.keys, 'key')}")
        if position.skips:
            print(f"  skipped   {listed('offset', position.skips.texts())}")
