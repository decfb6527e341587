"""`slotlog demo`."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ops.cli.options import Data, Json, print_json, reports_errors
from ops.config import ConfigError, Settings, load_settings
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.demo.past import PastWalk
    from ops.demo.run import Report
    from ops.past.history import Touch

_DEPARTURES_SHOWN: Final = 5
_RATES: Final = """\
          These rates are of one process with the embedded log and one partition, five events a flight, with
          transactions, times to live and ids. `make bench` measures single commands, and Kafka.
"""


@reports_errors
def demo(
    *,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the log and both states in DIR/demo; replaces those of an earlier demo."),
    ] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Run slotlog on real data: a month of flights out of New York City, as events of a departure board.

    The events go through the embedded log into a state. The demo compares results from the state with the table of
    flights. It walks through the past of one flight, and undoes that it has left the board. Then it replays the log
    into a second state and compares the digests. The exit code is 1 if any differs.

    Example: slotlog demo --keep
    """
    from ops.logging import configure_logging

    settings = load_settings(data=data)
    configure_logging(settings.log_level)
    if keep:
        directory = settings.data / "demo"
        _remove_earlier(directory)
        report = _run(settings, directory, json=json)
        if not json:
            _print_next(directory)
    else:
        with tempfile.TemporaryDirectory(prefix="slotlog-demo-") as temporary:
            report = _run(settings, Path(temporary), json=json)
        if not json:
            print("\nNothing is kept. With --keep, the log and both states stay for a look around.")
    if not report.right:
        raise typer.Exit(1)


def _run(settings: Settings, directory: Path, *, json: bool) -> Report:
    from ops.demo.flights import read_flights
    from ops.demo.run import demo_settings, run

    flights = list(read_flights())
    if not json:
        print(f"{len(flights):,} flights left New York City in January 2013. Their events, through the embedded log:\n")
    report = asyncio.run(run(demo_settings(settings, directory), flights))
    if json:
        print_json(_facts(report))
    else:
        _print_report(report)
    return report


def _remove_earlier(directory: Path) -> None:
    """Remove what an earlier demo left.

    Raises:
        ConfigError: there is something else in the directory.
    """
    from ops.demo.run import EARLIER, REPLAYED, STATE

    if not directory.exists():
        return
    foreign = sorted(path.name for path in directory.iterdir() if path.name not in {STATE, REPLAYED, EARLIER})
    if foreign:
        raise ConfigError(f"{directory} holds {foreign[0]}, which is not of a demo; choose another --data")
    shutil.rmtree(directory)


def _facts(report: Report) -> dict[str, Any]:
    return {
        "flights": report.flights,
        "events": report.sent,
        "commands": report.commands,
        "duplicates": report.duplicates,
        "rejected": report.rejected,
        "dead_letters": report.dead_letters,
        "send_per_second": round(report.sent / report.send_seconds),
        "apply_per_second": round(report.sent / report.apply_seconds),
        "reads": len(report.reads),
        "reads_wrong": [read.check.command[:2] for read in report.wrong],
        "past": {
            "flight": report.past.flight.name,
            "events": len(report.past.history),
            "undone": report.past.undone.events,
            "right": report.past.is_right,
        },
        "digest": str(report.replayed.live_digest),
        "replayed_digest": str(report.replayed.digest),
    }


def _print_report(report: Report) -> None:
    replayed = report.replayed
    for step, seconds in (("sent", report.send_seconds), ("applied", report.apply_seconds)):
        print(f"{step:<9} {report.sent:,} events in {seconds:.1f} s, {report.sent / seconds:,.0f} a second")
    print(f"          {report.commands:,} commands; {report.duplicates:,} ids came twice and counted once")
    print(_RATES)
    _print_results(report)
    for read in report.wrong:
        print(f"WRONG     {' '.join(read.check.command[:2])}: {read.reply!r:.200} instead of {read.check.reply!r:.200}")
    if report.rejected or report.dead_letters:
        print(f"WRONG     rejected: {counted(report.rejected, 'event')}; became dead letters: {report.dead_letters}")
    agree = len(report.reads) - len(report.wrong)
    print(f"checked   {agree} of {len(report.reads)} reads of the state agree with the table of flights")
    print("\n".join(past_lines(report.past)))
    print(f"replayed  the log, with the undo, into a second state in {report.replay_seconds:.1f} s:")
    print(f"          digest of the first   {replayed.live_digest}")
    verdict = "equal" if replayed.digest == replayed.live_digest else "DIFFERENT"
    print(f"          digest of the second  {replayed.digest}  {verdict}")


def past_lines(past: PastWalk) -> list[str]:
    """The walk, as the demo ends with it."""
    from ops.cli.reply_text import moment_text

    name, origin = past.flight.name, past.flight.origin
    moment = moment_text(past.moment_ms)
    board = "  ".join(row.decode() for row in past.board)
    hash_then = "  ".join(f"{field.decode()}={value.decode()}" for field, value in past.then)
    ended = "as then" if past.now else "gone"
    brought_back = "as then" if past.after == past.then else "DIFFERENT"
    by = counted(past.undone.events, "event")
    lines = [
        f"past      of flight {name}, which left {origin} in the morning of {moment[:10]}",
        f"  at {moment} LRANGE departures:{origin} 0 {len(past.board) - 1}",
        f"    {board}",
        f"  at {moment} HGETALL flight:{name}",
        f"    {hash_then}",
        f"  at the end of the month: {ended}; after restore-key: {brought_back}, by {by}",
        f"  history flight:{name}",
    ]
    return [*lines, *(f"    {_touch(touch)}" for touch in past.history)]


def _touch(touch: Touch) -> str:
    from ops.cli.reply_text import moment_text

    name, *args = touch.command
    words = [each[0] if isinstance(each, list) else each for each in args]
    fields = len(touch.after.content or ()) if touch.after is not None else 0
    said = b" ".join(words[: 2 if name == b"EXEC" else 1]).decode()
    return f"{moment_text(touch.time_ms)}  {name.decode()} {said}  {touch.outcome}, {counted(fields, 'field')}"


def _print_results(report: Report) -> None:
    """What was read from the state: nothing here comes from the table of flights but the names of the keys."""
    from ops.demo.checks import carriers

    replies = {tuple(read.check.command[:2]): read.reply for read in report.reads}
    print("carrier   departed  cancelled  aircraft")
    for carrier in carriers(report.expected):
        departed, cancelled = (int(replies["GET", f"{key}:{carrier}"] or 0) for key in ("departed", "cancelled"))
        print(f"{carrier:<8}{departed:>10,}{cancelled:>11,}{replies['SCARD', f'aircraft:{carrier}']:>10,}")
    print("\nlongest delays      minutes")
    for name, minutes in replies["ZREVRANGE", "delays"]:
        print(f"{name.decode():<20}{minutes:>7,.0f}")
    print("\nlatest departures")
    for airport in sorted(report.expected.departures):
        latest = replies["LRANGE", f"departures:{airport}"][:_DEPARTURES_SHOWN]
        print(f"{airport}     {'  '.join(name.decode() for name in latest)}")
    on_board, *left = (read.reply for read in report.reads if read.check.command[0] == "EXISTS")
    before = len(report.expected.off_board)
    expired = f"{before - sum(left):,} of {before:,} before them have expired"
    print(f"\non the board: {on_board:,} flights of the last 3 days; {expired}\n")


def _print_next(directory: Path) -> None:
    from ops.demo.run import EARLIER, REPLAYED, STATE

    program = sys.argv[0] if Path(sys.argv[0]).name == "slotlog" else "slotlog"
    state, then = directory / STATE, directory / EARLIER
    print(f"""
The log and the state are in {state}, the second state is in {directory / REPLAYED}. Try:

  {program} query --data {state} HGETALL flight:2013-01-31:B6608
  {program} query --data {state} ZREVRANGE delays 0 4 WITHSCORES
  {program} history --data {state} --values flight:2013-01-31:B6608
  {program} at --data {state} 2013-01-08T11:00:00Z LRANGE departures:JFK 0 4
  {program} replay --data {state} --to {then} --until 2013-01-10T00:00:00Z
  {program} query --data {then} LRANGE departures:JFK 0 4
  {program} digest --data {state}
  {program} dump --data {state} | head""")
