"""`slotlog deadletters`: list, show, redrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ops.cli.options import Data, Json, LogUrl, StatePartitions, StateTopic, print_json, reports_errors
from ops.cli.reply_text import moment_text
from ops.config import ConfigError, Settings
from slotlog.wording import counted

if TYPE_CHECKING:
    from ingest.dead_letters.dead_letter import DeadLetter
    from ingest.dead_letters.found import Found, Summary, Wanted, Went
    from ops.dead_letters.resend import Outcome

_ARGUMENTS_MAX: Final = 32
_ARGUMENT_BYTES_MAX: Final = 200
_HEX_LINE_BYTES: Final = 32
_OFFSET_MAX: Final = (1 << 48) - 1

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Partition = Annotated[
    int | None, typer.Option("--partition", min=0, max=_OFFSET_MAX, help="Only dead letters of this partition.")
]
_Offset = Annotated[
    str | None, typer.Option("--offset", metavar="N|N-M", help="The dead letter at this offset, or a range.")
]


@app.callback()
def deadletters() -> None:
    """List the records that could not be applied, show one, and send them again after a fix.

    Example: slotlog deadletters list
    """


@app.command("list")
@reports_errors
def list_letters(
    *,
    partition: _Partition = None,
    offset: _Offset = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=_OFFSET_MAX, help="How many to print, at most.")] = 20,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Print dead letters, one per line, the latest first. With --partition or --offset, in the order of offsets.

    Example: slotlog deadletters list --limit 50
    """
    settings = _settings(data, log, topic, partitions)
    wanted = None if partition is None and offset is None else _wanted(partition, offset, settings)
    found = asyncio.run(_summaries(settings, wanted, limit))
    if json:
        print_json([_facts(dead_letter) for dead_letter in found])
        return
    for dead_letter in found:
        where = f"partition {dead_letter.partition}, offset {dead_letter.offset}"
        sent = f"; {_sent(dead_letter.redriven)}" if dead_letter.redriven else ""
        size = counted(dead_letter.size, "byte")
        print(f"{moment_text(dead_letter.time_ms)}  {where}  {size}  {printable(dead_letter.reason)}{sent}")


@app.command()
@reports_errors
def show(
    partition: Annotated[int, typer.Argument(min=0, max=_OFFSET_MAX, help="The partition of the record.")],
    offset: Annotated[int, typer.Argument(min=0, max=_OFFSET_MAX, help="The offset of the record.")],
    *,
    bytes_max: Annotated[int, typer.Option("--bytes", min=0, help="How many bytes of the value to print.")] = 512,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Print one dead letter: reason, headers, the event as far as it can be read, bytes, and whether it can be sent.

    Example: slotlog deadletters show 0 4711 --bytes 64
    """
    from ops.dead_letters.resend import RefusedError, entry_of

    settings = _settings(data, log, topic, partitions)
    found = asyncio.run(_one(settings, partition, offset))
    try:
        refused, target = "", entry_of(found.dead_letter, settings).partition
    except RefusedError as error:
        refused, target = str(error), None
    if json:
        print_json(_all_facts(found, refused, target, bytes_max))
        return
    dead_letter = found.dead_letter
    lines = {
        "record": f"partition {dead_letter.partition}, offset {dead_letter.offset} of {dead_letter.topic}",
        "time": moment_text(dead_letter.time_ms),
        "reason": printable(dead_letter.reason),
        "redrive": _sent(found.redriven) if found.redriven else _can_go(refused, target),
        "event": _event_text(dead_letter),
        "key": "none" if dead_letter.key is None else dead_letter.key[:_ARGUMENT_BYTES_MAX].hex(),
        **{
            f"header {printable(name)}": "none" if value is None else _short(value)
            for name, value in dead_letter.headers
        },
    }
    width = max(map(len, lines))
    for name, text in lines.items():
        print(f"{name:<{width}}  {text}")
    _print_hex(dead_letter.value, bytes_max)


@app.command()
@reports_errors
def redrive(
    *,
    partition: _Partition = None,
    offset: _Offset = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead letter that was not sent again yet.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    out_of_order: Annotated[
        bool, typer.Option("--out-of-order", help="Also those whose keys have later events in the log.")
    ] = False,
    data: Data = None,
    log: LogUrl = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    json: Json = False,
) -> None:
    """Send dead letters again, as new records at the end of the log, in the order of their offsets.

    Use it when they can be applied at last, for example after an upgrade. Each is first checked as a producer and a
    worker would check it. One that still cannot be applied is refused. One whose keys have later events in the log is
    kept back, because it would undo or repeat them; --out-of-order sends it anyway. A dead letter that was sent is
    marked, and is not sent twice. The exit code is 1 if any was refused or kept back.

    Example: slotlog deadletters redrive --partition 0 --offset 4711 --dry-run
    """
    from ops.dead_letters.resend import Done
    from ops.dead_letters.resend import redrive as run

    if everything == (partition is not None or offset is not None):
        raise typer.BadParameter("say which: --all, or --partition and --offset")
    settings = _settings(data, log, topic, partitions)
    wanted = _wanted(partition, offset, settings)
    outcomes: list[Outcome] = []

    def say(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if not json:
            print(_outcome_text(outcome))

    asyncio.run(run(settings, wanted, say, dry_run=dry_run, out_of_order=out_of_order))
    counts = {str(done): sum(outcome.done is done for outcome in outcomes) for done in Done}
    if json:
        print_json({**{name.replace(" ", "_"): n for name, n in counts.items()}, "letters": _listed(outcomes)})
    else:
        print(", ".join(f"{n} {name}" for name, n in counts.items() if n))
    if counts[Done.REFUSED] or counts[Done.KEPT_BACK]:
        raise typer.Exit(1)


def _settings(data: Any, log: str | None, topic: str | None, partitions: int | None) -> Settings:
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions)
    configure_logging(settings.log_level)
    return settings


def _wanted(partition: int | None, offset: str | None, settings: Settings) -> Wanted:
    from ingest.dead_letters.found import Wanted

    if partition is not None and partition >= settings.partitions:
        raise typer.BadParameter(f"--partition {partition}: the log has the partitions 0 to {settings.partitions - 1}")
    if offset is None:
        return Wanted(partition)
    first, separator, last = offset.partition("-")
    if not first.isdecimal() or (separator and not last.isdecimal()):
        raise typer.BadParameter(f"--offset {offset!r} is neither an offset nor a range such as 100-200")
    if int(last or first) < int(first):
        raise typer.BadParameter(f"--offset {offset} ends before it begins")
    return Wanted(partition, min(int(first), _OFFSET_MAX), min(int(last or first), _OFFSET_MAX))


async def _summaries(settings: Settings, wanted: Wanted | None, limit: int) -> list[Summary]:
    from ops.dead_letters.resend import all_pages, opened

    async with opened(settings) as (_, dead_letters):
        if wanted is None:
            return await dead_letters.newest(limit)
        found: list[Summary] = []
        async for page in all_pages(dead_letters, wanted):
            found += [each.summary for each in page]
            if len(found) >= limit:
                break
        return found[:limit]


async def _one(settings: Settings, partition: int, offset: int) -> Found:
    from ingest.dead_letters.found import Wanted
    from ops.dead_letters.resend import opened

    async with opened(settings) as (_, dead_letters):
        page = await dead_letters.page(Wanted(partition, offset, offset))
    if not page:
        raise ConfigError(f"partition {partition} has no dead letter at offset {offset}; `list` shows those it has")
    return page[0]


# ---------------------------------------------------------------------- for people


def printable(text: str) -> str:
    """`text` on one line, and without what a terminal would obey."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _sent(went: Went) -> str:
    return f"sent again, to partition {went.partition}, offset {went.offset}"


def _can_go(refused: str, target: int | None) -> str:
    return f"refused: {printable(refused)}" if refused else f"it can be sent again, to partition {target}"


def _short(value: bytes) -> str:
    from ops.cli.reply_text import quoted

    more = len(value) - _ARGUMENT_BYTES_MAX
    return quoted(value[:_ARGUMENT_BYTES_MAX]) + (f" and {counted(more, 'byte')} more" if more > 0 else "")


def _event_text(dead_letter: DeadLetter) -> str:
    from slotlog.events import decode

    _, _, name, args, db, event_id, _ = decode(dead_letter.offset, 0, dead_letter.value)
    if not name:
        return f"not readable: {printable(args[0].decode(errors='backslashreplace'))}"
    commands = args if name == b"EXEC" else [args]
    shown = " | ".join(
        " ".join(map(_short, command[:_ARGUMENTS_MAX]))
        + (f" and {len(command) - _ARGUMENTS_MAX} more" if len(command) > _ARGUMENTS_MAX else "")
        for command in commands[:_ARGUMENTS_MAX]
    )
    more = f" and {len(commands) - _ARGUMENTS_MAX} commands more" if len(commands) > _ARGUMENTS_MAX else ""
    database = f" (database {db})" if db else ""
    identity = "" if event_id is None else f" (id {_short(event_id)})"
    return f"{printable(name.decode(errors='backslashreplace'))} {shown}{more}{database}{identity}"


def _print_hex(value: bytes | None, bytes_max: int) -> None:
    if value is None:
        print("no value")
        return
    print(f"value, {counted(len(value), 'byte')}:")
    for at in range(0, min(len(value), bytes_max), _HEX_LINE_BYTES):
        print(f"  {at:06x}  {value[at : min(at + _HEX_LINE_BYTES, bytes_max)].hex(' ')}")
    if len(value) > bytes_max:
        print(f"  and {counted(len(value) - bytes_max, 'byte')} more; --bytes {len(value)} prints them")


def _outcome_text(outcome: Outcome) -> str:
    from ops.dead_letters.resend import Done

    where = f"partition {outcome.partition} offset {outcome.offset}: {outcome.done}"
    went = outcome.went
    if outcome.done is Done.REFUSED:
        return f"{where}: {printable(outcome.reason)}"
    if outcome.done is Done.SENT_BEFORE:
        return where if went is None else f"{where}, to partition {went.partition}, offset {went.offset}"
    later = f"{counted(outcome.later, 'later event')} of its keys, the first at offset {outcome.first_later}"
    if outcome.done is Done.KEPT_BACK:
        return f"{where}: partition {outcome.target} has {later}; --out-of-order sends it all the same"
    to = f" to partition {outcome.target}" + (f", offset {went.offset}" if went is not None else "")
    notes = [f"out of order: after {later}"] if outcome.later else []
    if outcome.behind >= 0:
        notes.append(f"the dead letter of the same key at offset {outcome.behind} stays behind")
    return where + to + "".join(f"; {note}" for note in notes)


# ---------------------------------------------------------------------- for programs


def _facts(dead_letter: Summary) -> dict[str, Any]:
    return {
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "time_ms": dead_letter.time_ms,
        "reason": dead_letter.reason,
        "bytes": dead_letter.size,
        "redriven": dead_letter.redriven and dead_letter.redriven._asdict(),
    }


def _all_facts(found: Found, refused: str, target: int | None, bytes_max: int) -> dict[str, Any]:
    from ops.reply_json import as_json, bytes_as_json
    from slotlog.events import decode

    dead_letter = found.dead_letter
    _, _, name, args, db, event_id, _ = decode(dead_letter.offset, 0, dead_letter.value)
    event = {"cmd": bytes_as_json(name), "args": as_json(args), "db": db}
    return {
        **_facts(found.summary),
        "headers": [[name, None if value is None else bytes_as_json(value)] for name, value in dead_letter.headers],
        "event": {**event, "id": None if event_id is None else bytes_as_json(event_id)} if name else None,
        "key": None if dead_letter.key is None else dead_letter.key.hex(),
        "value": None if dead_letter.value is None else dead_letter.value[:bytes_max].hex(),
        "refused": refused or None,
        "target": target,
    }


def _listed(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "partition": outcome.partition,
            "offset": outcome.offset,
            "outcome": str(outcome.done).replace(" ", "_"),
            "reason": outcome.reason or None,
            "redriven": outcome.went and outcome.went._asdict(),
            "later_events": outcome.later,
            "first_later_offset": None if outcome.first_later < 0 else outcome.first_later,
            "left_behind_offset": None if outcome.behind < 0 else outcome.behind,
        }
        for outcome in outcomes
    ]
