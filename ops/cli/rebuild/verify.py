"""`slotlog verify`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ops.cli.options import Json, end_with_damaged, listed, named, print_json, print_note, reports_errors, takes_state
from ops.cli.past.items import command_text, cut, item_facts, item_text, value_text
from ops.cli.rebuild.chain import chain_facts, note_missing_snapshots, print_chain
from ops.cli.reply_text import moment_text
from ops.reply_json import bytes_as_json
from slotlog.wording import counted

if TYPE_CHECKING:
    from ops.config import Settings
    from ops.past.proof.parting import Parting
    from ops.past.proof.verifying import Compared, Difference
    from ops.state.chain.checking import Checked, Known

_REMEDY = (
    "where the log is right, rebuild the state with `slotlog replay --swap --even-if-different`; where it is not,"
    " bring it back from a copy"
)


class Verified(NamedTuple):
    """The result for one partition; `log` is None where it was not looked at."""

    state: Compared
    log: Checked | None

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return self.state.is_equal and (self.log is None or self.log.is_right)


_FromSnapshot = Annotated[
    bool, typer.Option("--from-snapshot", help="Begin with the newest verified snapshot before the state.")
]
_Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="DIR", help="Compare with the state in this directory, and replay nothing."),
]
_Heads = Annotated[
    list[str] | None,
    typer.Option(
        "--head",
        metavar="PARTITION:OFFSET:HEAD",
        help="Hold the log against this head of its chain, noted earlier; may be repeated.",
    ),
]
_Count = Annotated[int, typer.Option(min=1, metavar="N", help="Name up to N keys of each partition.")]


@reports_errors
@takes_state(own=True)
def verify(
    settings: Settings,
    *,
    from_snapshot: _FromSnapshot = False,
    against: _Against = None,
    head: _Heads = None,
    count: _Count = 10,
    json: Json = False,
) -> None:
    """Prove that a state is what its log makes of it, and that the log is what it was.

    The log is read, and its hash chain held against all heads that are known: those in --data, in the manifests of
    snapshots, and the given ones. Each partition is rebuilt in a scratch directory inside --data, up to the position
    that its state has now, and the digests are compared. Keys that differ are named, each with the first event at which
    it parts from the log. A service may run meanwhile. The exit code is 1 if anything differs.

    --against compares with another state instead, such as that of a second worker: at the same position nothing is
    replayed. If one of the two is behind, and no service has it open, a copy of it is brought up along the log first.

    Example: slotlog verify --data .data; slotlog verify --against /backup/data
    """
    from ops.past.proof.noted import parse_heads
    from ops.state.opening.damaged import read_each
    from ops.state.opening.recorded import load_state_settings, presence

    if against is not None and (from_snapshot or head):
        raise typer.BadParameter("--against compares two states: --from-snapshot and --head are about the log")
    other = None if against is None else load_state_settings(data=against, log=settings.log)
    here, missing = presence(settings)
    given = parse_heads(head or [], settings.partitions)
    if other is None:
        note_missing_snapshots(settings)

    def look(partition: int) -> Verified:
        return asyncio.run(
            _verify(settings, other, partition, given.get(partition, []), from_snapshot=from_snapshot, count=count)
        )

    results, damaged = read_each(here, look)
    is_right = all(each.is_right for each in results) and not damaged
    if json:
        facts = [_facts(each) for each in results]
        print_json({"right": is_right, "partitions": facts, "missing": missing, "damaged": named(damaged)})
    else:
        _print_all(results)
        if missing:
            print(f"not looked at: {listed('partition', missing)}, of which {settings.data} has no state")
    end_with_damaged(damaged, json=json)
    if not is_right:
        raise typer.Exit(1)


async def _verify(
    settings: Settings,
    other: Settings | None,
    partition: int,
    given: list[Known],
    *,
    from_snapshot: bool,
    count: int,
) -> Verified:
    from ops.past.proof.noted import check_log
    from ops.past.proof.verifying import compare_partition, verify_partition

    if other is not None:
        return Verified(await compare_partition(settings, other, partition, named_max=count), None)
    checked = await check_log(settings, partition, given)
    state = await verify_partition(settings, partition, from_snapshot=from_snapshot, named_max=count)
    return Verified(state, checked)


def _facts(one: Verified) -> dict[str, Any]:
    state = one.state
    return {
        "partition": state.partition,
        "right": one.is_right,
        "next_offset": state.position.next_offset,
        "clock_ms": state.position.clock_ms,
        "digest": str(state.digest),
        "keys": state.digest.keys,
        "expected_clock_ms": state.clock_ms,
        "expected_digest": str(state.other_digest),
        "expected_keys": state.other_digest.keys,
        "replayed_from": state.begin,
        "skips": state.position.skips.texts(),
        "differences": [_difference_facts(each) for each in state.differences],
        "more": not state.is_whole,
        "log": None if one.log is None else chain_facts(one.log),
    }


def _difference_facts(one: Difference) -> dict[str, Any]:
    from ops.past.documents import value_as_json

    facts = item_facts(one.item)
    if one.parting is None:
        return facts
    more = {} if one.other_parting is None else {"expected_event": _event_facts(one.other_parting)}
    return {
        **facts,
        "value": value_as_json(one.live),
        "expected": value_as_json(one.other),
        "event": _event_facts(one.parting),
        **more,
    }


def _event_facts(parting: Parting) -> dict[str, Any] | None:
    event = parting.event
    if event is None:
        return None
    command, *args = event.command
    return {
        "offset": event.offset,
        "time_ms": event.time_ms,
        "command": [bytes_as_json(command), *(_argument(each) for each in args)],
        "left_out": event.is_left_out,
    }


def _argument(argument: Any) -> Any:
    return [bytes_as_json(each) for each in argument] if isinstance(argument, list) else bytes_as_json(argument)


def _print_all(results: list[Verified]) -> None:
    for each in results:
        _print(each)
    if not all(each.is_right for each in results):
        print_note(_REMEDY)


def _print(one: Verified) -> None:
    state = one.state
    keys = counted(state.digest.keys, "key")
    print(f"partition {state.partition}: next offset {state.position.next_offset}, {keys}")
    if one.log is not None:
        print_chain(one.log)
    verdict = "equal" if state.digest == state.other_digest else "DIFFERENT"
    expected = "other     " if state.begin is None else "replayed  "
    print(f"  state     {state.digest}")
    print(f"  {expected}{state.other_digest}  {verdict}")
    if state.clock_ms != state.position.clock_ms:
        print(f"  its clock is {state.position.clock_ms} ms, and should be {state.clock_ms} ms")
    if state.rules != state.position.rules:
        print(f"  it follows rules {state.position.rules}, and should follow {state.rules}")
    for each in state.differences:
        _print_difference(each)
    if not state.is_whole:
        print("  and more; --count names more of them")


def _print_difference(one: Difference) -> None:
    print(f"  {item_text(one.item)} differs")
    if one.parting is None or one.live is None or one.other is None:
        return
    is_replay = one.other_parting is None
    print(f"    state     {value_text(one.live)}")
    _print_parting(one.parting, is_replay=is_replay)
    print(f"    {'replayed' if is_replay else 'other   '}  {value_text(one.other)}")
    if one.other_parting is not None:
        _print_parting(one.other_parting, is_replay=False)


def _print_parting(parting: Parting, *, is_replay: bool) -> None:
    event = parting.event
    if not parting.is_shown and not is_replay:
        print("      is what the log makes of it")
        return
    if event is None:
        print("      no event has touched this key")
        return
    how = "as it was before this event" if event.is_left_out else "parts from the log at this event"
    print(f"      {how}: offset {event.offset}, {moment_text(event.time_ms)}, {cut(command_text(event.command))}")
