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
from ops.config import ConfigError
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.exporting.exporter import Export, NotExported
    from ops.exporting.run import Exported


@reports_errors
def export(
    *,
    to: Annotated[Path, typer.Option(metavar="FILE", help="The RDB file to write, such as dump.rdb.")],
    rdb_version: Annotated[
        int, typer.Option(metavar="N", help="9, 10, 11, 12 or 80: by who is to load it (docs/moving-redis.md).")
    ] = 10,
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
    """Write the live keys of a state into an RDB file that redis-server and valkey-server load.

    Also while a service runs on it; each partition is read as it is at one moment. The file is there when it is whole,
    and on disk. RDB version 10 is for Redis from 7.0 and every Valkey. Times of a hash's fields need version 12 (Redis
    7.4) or 80 (Valkey 9): in others the fields are written without, and stderr names each such key.

    Example: slotlog export --data .data --to dump.rdb
    """
    from ops.cli.rebuild.replay import parse_until
    from ops.exporting.run import export as run
    from ops.exporting.run import state_at
    from ops.logging import configure_logging
    from ops.state.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    writer = _writer(rdb_version)
    _refuse_path(to, force=force)
    if until is None:
        exported = run(settings, to, writer, _tell)
        print_standings(exported.standings, exported.ends)
    else:
        with state_at(settings, parse_until(until), to.parent) as past:
            exported = run(past, to, writer, _tell)
    if json:
        print_json(_facts(to, exported))
    else:
        _print(to, exported)


def _writer(version: int) -> Export:
    from functools import partial

    from ops.exporting.rdb.file import VERSIONS
    from ops.exporting.rdb.file import export as write

    if version not in VERSIONS:
        known = "; ".join(f"{number}: {loaders}" for number, loaders in VERSIONS.items())
        raise ConfigError(f"--rdb-version {version} is none that is written. {known}")
    return partial(write, version=version)


def _refuse_path(to: Path, *, force: bool) -> None:
    if not to.parent.is_dir():
        raise ConfigError(f"{to.parent} is no directory")
    if to.is_dir():
        raise ConfigError(f"{to} is a directory; --to names the file")
    if to.exists() and not force:
        raise ConfigError(f"{to} is there already; name another file, or replace it with --force")


def _tell(missing: NotExported) -> None:
    name = missing.name.decode(errors="backslashreplace")
    print_note(f"database {missing.db}, key {name}: {missing.what} are not in the file: {missing.reason}")


def _facts(to: Path, exported: Exported) -> dict[str, object]:
    return {
        "to": str(to),
        "bytes": to.stat().st_size,
        "keys": exported.types.total(),
        "types": dict(sorted(exported.types.items())),
        "missing": dict(exported.missing),
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
