"""`slotlog backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Data, Json, LogUrl, print_json, reports_errors
from slotlog.wording import counted, sized


@reports_errors
def backup(
    *,
    to: Annotated[Path, typer.Option(metavar="FILE", help="A new file for the copy.")],
    data: Data = None,
    log: LogUrl = None,
    json: Json = False,
) -> None:
    """Copy the embedded log into a new file, also while a service runs, and verify every checksum in the copy.

    The file has the log as it was at the start. It gets its name when all of it is on disk and verified: until then it
    is FILE.unfinished, which the next backup to FILE removes. A damaged log, or a damaged copy, is exit code 1 and no
    file. A log in Kafka is backed up by Kafka.

    Example: slotlog backup --to /backup/log.sqlite3 --data .data
    """
    from ops.config import load_settings
    from ops.logging import configure_logging
    from ops.state.repair.backup import back_up

    settings = load_settings(data=data, log=log)
    configure_logging(settings.log_level)
    result = back_up(settings, to)
    if json:
        facts = [
            {"partition": each.partition, "next_offset": each.next_offset, "records": each.records}
            for each in result.partitions
        ]
        print_json({"file": str(to), "topic": result.topic, "bytes": result.size, "partitions": facts})
        return
    for each in result.partitions:
        print(f"partition {each.partition}: next offset {each.next_offset}, {counted(each.records, 'record')}")
    print(f"{to}: {sized(result.size)}, every checksum verified")
