"""`slotlog restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.keep.options import From, opened
from ops.cli.options import Json, StateTopic, print_json, print_note, reports_errors
from ops.config import ConfigError, Settings, load_settings
from ops.partition_lists import parse_own
from ops.state.rebuilding.replay_plan import parse_until
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.snapshots.choosing import Refused
    from ops.snapshots.store import Listed, SnapshotStore
    from ops.state.rebuilding.replay_plan import Until


@reports_errors
def restore(
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="The data directory for the restored state.")],
    url: From = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="OFFSET|TIME",
            help="The newest snapshot up to this offset, or before this time: ISO 8601, or @ and ms since 1970.",
        ),
    ] = None,
    topic: StateTopic = None,
    own: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Partitions, such as 0-3.", show_default="all that have snapshots"),
    ] = None,
    json: Json = False,
) -> None:
    """Put the newest verified snapshot of each partition into a data directory, without the log.

    The state stands where its snapshot was taken: `slotlog serve` with the log applies the rest. A snapshot that is
    damaged is named, and the one before it is taken. The log is not restored.

    Example: slotlog restore --from /mnt/snapshots --to .data
    """
    from ops.logging import configure_logging

    settings = load_settings(topic=topic)
    configure_logging(settings.log_level)
    store = opened(settings, url, "--from")
    until = parse_until(at, "--at")
    there = store.partitions(settings.topic)
    wanted = there if own is None else _named(own)
    if not there:
        others = ", ".join(store.topics())
        raise ConfigError(
            f"{store.label} has no snapshot of {settings.topic}" + (f", but of {others}; see --topic" if others else "")
        )
    refused: list[Refused] = []
    restored = [_restore(store, settings, partition, to, until, refused) for partition in wanted]
    if json:
        from ops.snapshots.store import facts

        print_json(
            {
                "restored": [facts(each) for each in restored],
                "refused": [{"id": each.snapshot.id, "error": each.reason} for each in refused],
            }
        )
        return
    for snapshot, reason in refused:
        print_note(f"snapshot {snapshot.id} is not taken: {reason}")
    for each in restored:
        print(f"{each.id}  restored: next offset {each.next_offset}, {counted(each.usable().keys, 'key')}")


def _named(own: str) -> list[int]:
    try:
        return parse_own(own, 1 << 32)
    except ValueError as error:
        raise ConfigError(f"--own: {error}") from None


def _restore(
    store: SnapshotStore, settings: Settings, partition: int, to: Path, until: Until, refused: list[Refused]
) -> Listed:
    """The snapshot that was restored; those that were not taken before are added to `refused`.

    Raises:
        ConfigError: none can be restored.
    """
    from ops.snapshots.choosing import Refused, Wanted, choose
    from ops.snapshots.errors import SnapshotRefusedError
    from ops.snapshots.restoring import restore_partition

    wanted = Wanted(offset=until.offset, time_ms=until.time_ms)
    candidates, others = choose(store.listed(settings.topic, partition), wanted)
    refused += [each for each in others if not candidates or each.snapshot.order > candidates[0].order]
    for candidate in candidates:
        try:
            restore_partition(store, candidate, to, settings)
        except SnapshotRefusedError as error:
            refused.append(Refused(candidate, str(error)))
            continue
        return candidate
    reasons = [f"{each.id}: {reason}" for each, reason in refused if each.partition == partition]
    raise ConfigError(f"no snapshot of partition {partition} can be restored ({'; '.join(reasons) or 'there is none'})")
