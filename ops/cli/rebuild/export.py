"""`slotlog export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    print_standings,
    reports_errors,
)
from ops.config import ConfigError, Settings
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.exporting.exporter import Export, NotExported
    from ops.exporting.run import Exported


_RDB_VERSION = 10  # Redis 7.0 and later, and every Valkey

LayoutOfDirectory = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="NAME",
        help="Write a directory for a Kvrocks: kvrocks, or kvrocks-cluster for one with cluster-enabled yes.",
    ),
]
FieldTimes = Annotated[
    str | None,
    typer.Option(
        "--field-times",
        metavar="WORD",
        help="Hashes with times of fields in a directory: leave-out, drop the times, or keep (a later Kvrocks).",
        show_default="leave-out",
    ),
]


@reports_errors
def export(
    *,
    to: Annotated[Path, typer.Option(metavar="PATH", help="The RDB file to write; with --layout a directory.")],
    layout: LayoutOfDirectory = "",
    field_times: FieldTimes = None,
    rdb_version: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="9, 10, 11, 12 or 80: by who is to load it (docs/moving-redis.md).",
            show_default=str(_RDB_VERSION),
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    until: Annotated[
        str | None,
        typer.Option(metavar="OFFSET|TIME", help="The state as it was there; as for `slotlog replay`."),
    ] = None,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    json: Json = False,
) -> None:
    """Write the live keys of a state into an RDB file for Redis or Valkey, or a directory for Kvrocks.

    Also while a service runs on it; each partition is read as it is at one moment. What is written is there when it is
    whole, and on disk. RDB version 10 is for Redis from 7.0 and every Valkey. Times of a hash's fields need version 12
    (Redis 7.4) or 80 (Valkey 9): in others the fields are written without, and stderr names each such key. A directory
    has to be empty. Exit code 1 if keys are left out.

    Example: slotlog export --data .data --to dump.rdb

    Example: slotlog export --data .data --layout kvrocks --to kvrocks-dir
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    if not to.parent.is_dir():
        raise ConfigError(f"{to.parent} is no directory")
    if layout:
        writer = _directory_writer(to, layout, field_times, of_file=force or rdb_version is not None)
    else:
        writer = _file_writer(to, rdb_version, force=force, of_directory=field_times is not None)
    exported = _write(settings, to, writer, until)
    if json:
        print_json(_facts(to, exported))
    else:
        _print(to, exported)
    if exported.left_out:
        raise typer.Exit(1)


def _write(settings: Settings, to: Path, writer: Export, until: str | None) -> Exported:
    """Write the state as it is, or a replay of it up to `until`."""
    from ops.exporting.run import export as run
    from ops.exporting.run import state_at
    from ops.state.rebuilding.replay_plan import parse_until

    if until is None:
        exported = run(settings, to, writer, _tell)
        print_standings(exported.standings, exported.ends)
        return exported
    with state_at(settings, parse_until(until), to.parent) as past:
        return run(past, to, writer, _tell)


def _file_writer(to: Path, version: int | None, *, force: bool, of_directory: bool) -> Export:
    from functools import partial

    from ops.exporting.rdb.file import VERSIONS
    from ops.exporting.rdb.file import export as write

    version = _RDB_VERSION if version is None else version
    if version not in VERSIONS:
        known = "; ".join(f"{number}: {loaders}" for number, loaders in VERSIONS.items())
        raise ConfigError(f"--rdb-version {version} is none that is written. {known}")
    if of_directory:
        raise ConfigError("--field-times is for directories: say --layout kvrocks, or --rdb-version for a file")
    if to.is_dir():
        raise ConfigError(f"{to} is a directory; --to names the file, or the directory of a --layout")
    if to.exists() and not force:
        raise ConfigError(f"{to} is there already; name another file, or replace it with --force")
    return partial(write, version=version)


def _directory_writer(to: Path, layout: str, field_times: str | None, *, of_file: bool) -> Export:
    from ops.exporting.kvrocks.exporter import FieldTimesMode, kvrocks_export, refuse_used
    from ops.importing.kvrocks.slots import CLUSTER, PLAIN

    if layout not in {PLAIN, CLUSTER}:
        raise ConfigError(f"--layout {layout} is none of an export; it is {PLAIN} or {CLUSTER}")
    modes = {mode.value: mode for mode in FieldTimesMode}
    mode = modes.get(field_times or FieldTimesMode.LEAVE_OUT.value)
    if mode is None:
        raise ConfigError(f"--field-times {field_times} is none of {', '.join(modes)}")
    if of_file:
        raise ConfigError("--force and --rdb-version are for RDB files; a directory has to be empty")
    refuse_used(to)
    return kvrocks_export(layout, mode)


def _tell(missing: NotExported) -> None:
    name = missing.name.decode(errors="backslashreplace")
    place = f"library {name}" if missing.db is None else f"database {missing.db}, key {name}"
    what = "left out" if missing.is_whole_key else f"{missing.what} are not in the file"
    print_note(f"{place}: {what}: {missing.reason}")


def _facts(to: Path, exported: Exported) -> dict[str, object]:
    return {
        "to": str(to),
        "bytes": sum(file.stat().st_size for file in (to, *to.rglob("*")) if file.is_file()),
        "keys": exported.types.total(),
        "types": dict(sorted(exported.types.items())),
        "missing": dict(exported.missing),
        "left_out": exported.left_out,
        "partitions": [
            {"partition": partition, "next_offset": position.next_offset, "clock_ms": position.clock_ms}
            for partition, position in sorted(exported.positions.items())
        ],
    }


def _print(to: Path, exported: Exported) -> None:
    print(f"{to}: {counted(exported.types.total(), 'key')}")
    for name, number in sorted(exported.types.items()):
        print(f"  {name:<8} {number}")
    for partition, position in sorted(exported.positions.items()):
        print(f"partition {partition}: next offset {position.next_offset}, clock {position.clock_ms} ms")
    for what, number in exported.missing.items():
        print(f"not in the file: {what} of {counted(number, 'key')}")
