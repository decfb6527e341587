"""`slotlog check`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ops.cli.options import (
    Data,
    Json,
    StateOwn,
    StatePartitions,
    StateTopic,
    end_with_damaged,
    listed,
    named,
    print_json,
    print_note,
    print_standings,
    reports_errors,
)
from slotlog.wording import counted

if TYPE_CHECKING:
    from engine.proof.audit import Violation
    from ops.config import Settings
    from ops.state.repair.check_state import CheckedState
    from ops.state.reports.standing import Standing
    from slotlog.log.embedded.proof.scan import Damage

_LookedThrough = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="[URL]",
        help="Check this embedded log; without a URL, the one in --data. With --data and a URL: the log of the"
        " state, to say how far behind it is.",
        show_default="DIR/log.sqlite3",
    ),
]
_LogItself = Annotated[bool, typer.Option("--log-itself", help="Check the embedded log, also with --data and a URL.")]

_BRING_BACK = "bring the log's file back from a copy: nothing else knows what stood there"
_REBUILD = "`slotlog replay --to DIR` builds the state again from the log"


@reports_errors
def check(
    *,
    data: Data = None,
    log: _LookedThrough = None,
    topic: StateTopic = None,
    partitions: StatePartitions = None,
    own: StateOwn = None,
    log_itself: _LogItself = False,
    repair: Annotated[bool, typer.Option("--repair", help="Refused; prints what to do instead.")] = False,
    json: Json = False,
) -> None:
    """Check a state directory, or the embedded log, for damage, and print what is found.

    It changes nothing, but needs the right to write: it takes locks, and makes files beside what it reads. A service
    may run meanwhile: the check sees the state at the moment when it opened it. The exit code is 1 if anything is
    wrong, or if the log ends before the state. Partitions that cannot be opened are named at the end. With --json, each
    violation is a line, and the last line is about the partitions and how far each is behind its log. The check does
    not compare the content with the log: `slotlog replay` does. With --log, it verifies each record of the embedded log
    against its checksum, which covers the record before it.

    Example: slotlog check --data .data; slotlog check --log; slotlog check --log sqlite:///FILE
    """
    from ops.logging import configure_logging
    from ops.state.opening.recorded import load_state_settings

    if repair:
        raise typer.BadParameter(f"a state is never repaired by guessing what was there; {_REBUILD}")
    settings = load_state_settings(data=data, log=log, topic=topic, partitions=partitions, own=own)
    configure_logging(settings.log_level)
    if log_itself or (data is None and log is not None and log.startswith("sqlite:")):
        _check_log(settings, json=json)
    else:
        _check_state(settings, json=json)


def _check_state(settings: Settings, *, json: bool) -> None:
    from ops.state.opening.damaged import read_each
    from ops.state.opening.recorded import presence
    from ops.state.repair.check_state import check_partition
    from ops.state.reports.standing import log_ends, standing_of

    here, missing = presence(settings)
    say = _json_line if json else _line

    ends = log_ends(settings, here)
    standings: dict[int, Standing] = {}

    def look(partition: int) -> CheckedState:
        result = check_partition(settings, partition, partial(say, partition))
        if result.position is not None:
            standings[partition] = standing_of(settings, ends, partition, result.position.next_offset)
        if not json:
            print(_summary(result, standings.get(partition)))
        return result

    results, damaged = read_each(here, look, hint="")
    violations = sum(result.violations for result in results)
    if json:
        facts = [{**_facts(result), **_standing_facts(standings.get(result.partition))} for result in results]
        print_json({"violations": violations, "partitions": facts, "missing": missing, "damaged": named(damaged)})
    elif missing:
        print(f"not looked at: {listed('partition', missing)}, of which {settings.data} has no state")
    # What is behind stands in the line of its partition.
    print_standings([standing for standing in standings.values() if json or not standing.text()], ends)
    if not json and (violations or damaged):
        print_note(_REBUILD)
    end_with_damaged(damaged, json=json)
    if violations or any(standing.is_cut for standing in standings.values()):
        raise typer.Exit(1)


class LogOption(TyperCommand):
    """A verb whose `--log` stands for `--log-itself` where no URL follows: click has no option with a value or none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write it out, then go on."""
        for at, word in enumerate(args):
            if word == "--log" and (at + 1 == len(args) or args[at + 1].startswith("-")):
                args = [*args[:at], "--log-itself", *args[at + 1 :]]
        return super().parse_args(ctx, args)


def _check_log(settings: Settings, *, json: bool) -> None:
    from ops.state.repair.check_log import check_log

    def say(damage: Damage) -> None:
        if json:
            print_json(damage._asdict())
        else:
            print(damage)

    results, damages = check_log(settings, say)
    if json:
        print_json({"damages": damages, "partitions": [asdict(result) for result in results]})
    else:
        for result in results:
            found = counted(result.damages, "damage") if result.damages else "all is well"
            print(
                f"partition {result.partition}: next offset {result.next_offset}, {counted(result.records, 'record')} "
                f"as written, {found}"
            )
        if damages:
            print_note(_BRING_BACK)
    if damages:
        raise typer.Exit(1)


def _line(partition: int, violation: Violation) -> None:
    print(f"partition {partition}: {violation}")


def _json_line(partition: int, violation: Violation) -> None:
    print_json(
        {
            "partition": partition,
            "kind": violation.kind,
            "column_family": violation.column_family,
            "record": violation.record.hex(),
            "message": violation.message,
        }
    )


def _summary(result: CheckedState, standing: Standing | None) -> str:
    where = "" if result.position is None else f"next offset {result.position.next_offset}, "
    found = counted(result.violations, "violation") if result.violations else "all is well"
    text = "" if standing is None else standing.text()
    if standing is not None and standing.is_cut and not result.violations:
        found = "as it was written"
    return f"partition {result.partition}: {where}{counted(result.keys, 'key')}, {found}{text and '; '}{text}"


def _facts(result: CheckedState) -> dict[str, Any]:
    position = result.position
    return {
        "partition": result.partition,
        "next_offset": None if position is None else position.next_offset,
        "clock_ms": None if position is None else position.clock_ms,
        "keys": result.keys,
        "violations": result.violations,
    }


def _standing_facts(standing: Standing | None) -> dict[str, Any]:
    """How a partition stands to its log; nothing of one whose position cannot be read."""
    return {"log_end_offset": None, "behind": None, "owned": None} if standing is None else standing.facts()
