"""`slotlog import`."""

from __future__ import annotations

import asyncio
import json as json_module
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import CorruptionError
from ops.cli.imports import INTERRUPTED
from ops.cli.options import (
    Data,
    Json,
    LogUrl,
    Partitions,
    Topic,
    print_json,
    print_note,
    reports_errors,
)
from ops.cli.reply_text import quoted
from ops.config import Settings, load_settings
from ops.reply_json import bytes_as_json
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.importing.report import Imported
    from ops.importing.source import LeftOut, Options, Source

_INTERRUPTED = "interrupted"


@reports_errors
def import_keys(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="redis://HOST:PORT, rediss://…, unix://PATH, an RDB file or a directory."
        ),
    ],
    *,
    layout: Annotated[
        str, typer.Option(metavar="NAME", help="SOURCE is the directory of a kvrocks, a kvrocks-cluster or a neokv1.")
    ] = "",
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DB", help="Kvrocks' namespace NAME is database DB; may be repeated."),
    ] = None,
    db: Annotated[
        list[int] | None, typer.Option("--db", help="Only this database; may be repeated.", show_default="all")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read a server's keys only once, not until nothing differs.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, append nothing.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what is left out to this file, as JSON Lines.")
    ] = None,
    progress: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the progress there, for a second run.", show_default="in DATA/imports"),
    ] = None,
    data: Data = None,
    log: LogUrl = None,
    topic: Topic = None,
    partitions: Partitions = None,
    json: Json = False,
) -> None:
    """Append the keys of another store to the log, as events.

    Each key replaces the key of the same name. Keys that only slotlog has stay. A running server is read until nothing
    differs: stop its writers then, and move its clients when this command ends. After an interruption, the same command
    continues. REDISCLI_AUTH may hold the password of a server. The exit code is 1 if anything is left out.

    Example: slotlog import redis://127.0.0.1:6380 --log kafka://127.0.0.1:9092 --topic board
    """
    from ops.importing.report import Imported
    from ops.importing.source import Options
    from ops.logging import configure_logging

    settings = load_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    directory = None if dry_run else progress or _directory(settings, source)
    options = Options(directory, frozenset(db or ()), settings.partitions, once, layout, tuple(namespace or ()))
    imported = Imported()
    label = _import(settings, source, options, report, imported)
    if json:
        print_json(_facts(label, imported, dry_run=dry_run))
    else:
        _print(label, imported, report, dry_run=dry_run)
    if imported.failure or imported.left_out:
        raise typer.Exit(INTERRUPTED if imported.failure == _INTERRUPTED else 1)


def _import(settings: Settings, source: str, options: Options, report: Path | None, imported: Imported) -> str:
    """Import until the end or a failure, which `imported` takes; returns what the source is called."""
    from ops.importing.kinds import open_source
    from ops.importing.source import SourceError

    with ExitStack() as stack:
        imported.listing = stack.enter_context(_listing(report))
        opened = stack.enter_context(closing(open_source(source, options)))
        try:
            _run(settings, opened, options, imported)
        except KeyboardInterrupt:
            imported.failure = _INTERRUPTED
        except (SourceError, CorruptionError) as error:
            imported.failure = str(error)
    return opened.label


def _run(settings: Settings, source: Source, options: Options, imported: Imported) -> None:
    from ops.importing.progress_file import ProgressFile
    from ops.importing.run import dry_run, run
    from ops.progress import progress

    with progress("import", source.total, source.unit) as advance:
        if options.progress is None:
            asyncio.run(dry_run(settings, source, advance, imported))
            return
        with ProgressFile(options.progress, source.identity, settings.log_url, settings.topic) as kept:
            asyncio.run(run(settings, source, kept, advance, imported))


def _directory(settings: Settings, source: str) -> Path:
    """The directory of this import into this log: another source or log has another one."""
    from ops.importing.source import public_part

    public = public_part(source)
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", public).strip("-")[-40:]
    what = f"{public}\n{settings.log_url}\n{settings.topic}"
    return settings.data / "imports" / f"{name}-{blake2b(os.fsencode(what), digest_size=4).hexdigest()}"


@contextmanager
def _listing(file: Path | None) -> Iterator[Callable[[LeftOut], None] | None]:
    """Writes what is left out to `file`."""
    if file is None:
        yield None
        return
    with file.open("w", encoding="utf-8") as lines:
        yield lambda each: print(json_module.dumps(_fact(each), ensure_ascii=False), file=lines)


def _fact(each: LeftOut) -> dict[str, Any]:
    return {"db": each.db, "name": bytes_as_json(each.name), "what": each.what, "reason": each.reason}


def _facts(label: str, imported: Imported, *, dry_run: bool) -> dict[str, Any]:
    kind = "Interrupted" if imported.failure == _INTERRUPTED else "ImportError"
    return {
        "source": label,
        "dry_run": dry_run,
        "keys": imported.keys,
        "types": dict(sorted(imported.types.items())),
        "events": imported.events,
        "earlier_keys": imported.earlier_keys,
        "left_out": dict(sorted(imported.left_out.items())),
        "first_left_out": [_fact(each) for each in imported.first_left_out],
        "notes": imported.notes,
        **({"error": imported.failure, "kind": kind} if imported.failure else {}),
    }


def _print(label: str, imported: Imported, report: Path | None, *, dry_run: bool) -> None:
    keys = counted(imported.keys, "key")
    before = f", {imported.earlier_keys} by an earlier run" if imported.earlier_keys else ""
    events = counted(imported.events, "event")
    print(f"{label}: {keys} would be imported" if dry_run else f"{label}: {keys} in {events}{before}")
    for name, count in sorted(imported.types.items()):
        print(f"  {name:<8} {count}")
    for name, count in sorted(imported.left_out.items()):
        print(f"  left out: {name} {count}")
    for each in imported.first_left_out:
        place = "" if each.db is None else f"db {each.db}: "
        print_note(f"left out: {place}{each.what} {quoted(each.name)}: {each.reason}")
    if more := imported.left_out.total() - len(imported.first_left_out):
        print_note(f"left out: {more} more, {f'all in {report}' if report else 'which --report FILE lists'}")
    for note in imported.notes:
        print(note)
    if imported.failure:
        print_note(f"{imported.failure}; the same command goes on after what is in the log")
