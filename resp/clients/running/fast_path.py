"""The fast path of a plain session's reads and writes.

Plain is a session that may do everything, outside of MULTI, while nobody listens with MONITOR (`Session.refresh`). What
is not plain in a command itself (a wrong number of arguments, an error, a key that is due) goes the general way of
`resp.clients.running.dispatch`, which has the words for it.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

from greenlet import GreenletExit

from engine.errors import CommandError
from resp.catalog.plans import CommandKind, Plan
from resp.clients.output import FLUSH_BYTES
from resp.clients.running.pending_reply import PendingReply
from resp.wire.encode import encode3
from resp.writes.items import make_entry, pack_arguments
from slotlog.shared.limits import ARGUMENTS_MAX, RECORD_BYTES_MAX
from slotlog.shared.slots import partition_of, slot

if TYPE_CHECKING:
    from resp.clients.session import Session

_READ: Final = CommandKind.READ
_SHORT_SECONDS: Final = 0.0001
"""What takes no longer is not asked whether it was suspended: 0.01 us a read, and an error of no more than this."""


def take(session: Session, command: list[bytes]) -> bool:
    """The short way of a plain session's command; False: it takes the general way."""
    plan = session.server.plans.by_spelling.get(command[0])
    if plan is None:
        return False
    if plan.kind is _READ:
        return not session.output.pending_replies and read(session, plan, command)
    return plan.first_key >= 0 and write(session, plan, [command], 0) > 0


def read(session: Session, plan: Plan, command: list[bytes]) -> bool:
    """The short way of a read; False: it takes the general way."""
    server, args, spec = session.server, command[1:], plan.spec
    if spec is None or not plan.arguments_min <= len(args) <= plan.arguments_max:
        return False
    if plan.is_general:  # a script's errors are its own, so it would run once more; and XREAD may wait
        return False
    served = server.served[0]
    if server.clustered:
        try:
            served = server.served_at(spec.keys(args))
        except CommandError:
            return False
    if served is None:
        return False
    evaluate = served.machine.evaluate
    session.last_command = plan.name  # first: whoever looks for a command that takes long finds it in CLIENT LIST
    began = perf_counter()
    try:
        data = session.encode(reply := evaluate(spec, args, session.db, server.wall_ms))
    except (Exception, GreenletExit):  # noqa: BLE001 - whatever it is, the general way has the words for it
        return False
    output = session.output
    output.parts.append(data)
    ended = perf_counter()
    took = ended - began
    if took > _SHORT_SECONDS:
        took = server.slices.own_seconds(began)
    server.accounting.ended(session, plan, command, reply, took)
    output.run_bytes = run_bytes = output.run_bytes + len(data)
    if run_bytes > FLUSH_BYTES:
        output.write_much()
    if ended > session.turns.ends:
        session.turns.end()
    return True


def read_run(session: Session, plan: Plan, commands: list[list[bytes]], at: int) -> int:
    """Answer the read at `at` and those behind it by its name whose keys are in memory, in C.

    Returns:
        The place of the first command that it does not answer; that one takes another way.
    """
    server = session.server
    accounting, output, hot = server.accounting, session.output, server.hot
    if hot is None or session.db or not accounting.takes_runs:
        return at
    began = perf_counter()
    is_resp3 = session.encode is encode3
    end, hits, size = hot.read_run(server.served, plan.run_kind, commands, at, server.wall_ms, is_resp3, output.parts)
    if end > at:
        ended = perf_counter()
        session.last_command = plan.name
        accounting.ended_reads(session, plan, commands[end - 1], end - at, hits, ended - began)
        output.run_bytes += size
        if output.run_bytes > FLUSH_BYTES:
            output.write_much()
        if ended > session.turns.ends:
            session.turns.end()
    return int(end)


def write(session: Session, plan: Plan, commands: list[list[bytes]], at: int) -> int:
    """The short way of the write at `at`, and of those behind it by the same name; each has one key, in one partition.

    What holds for all of them is asked once. Measured with `check_entries` for all records of an append: 2,900 less of
    79,800 instructions of a SET by 16, those of the log and the engine included.

    Returns:
        The place of the first command that it does not take; that one takes the general way.
    """
    server, output = session.server, session.output
    served = server.served[0]
    if server.clustered:
        key = commands[at][plan.first_key + 1 : plan.first_key + 2]
        served = server.served_at(key) if key else None
    if served is None:
        return at
    pipeline, answers, pending_replies = served.pipeline, served.answers, output.pending_replies
    if session.db or answers.crowded or output.is_full:
        return at
    end = len(commands)
    if end - at > 1:  # one more is taken of who is neither crowded nor full
        end = min(end, at + answers.free_events, at + output.free_places)
    if plan.returns_data:
        end = min(end, at + output.window.commands - len(pending_replies))
    free_bytes = answers.free_bytes
    place = pipeline.partition, server.partitions
    if server.hot is None:
        items, left = items_of(session, plan, commands, at, end, free_bytes, *place)
    else:
        of_plan = plan.name, plan.event_head, plan.first_key, plan.arguments_min, plan.arguments_max
        items, left = server.hot.take_writes(commands, at, end, session, plan, *of_plan, free_bytes, *place)
    if items:
        pending_replies.extend(items)
        pipeline.submit_all(items, free_bytes - left)
        session.last_command = plan.name
    return at + len(items)


def items_of(
    session: Session,
    plan: Plan,
    commands: list[list[bytes]],
    at: int,
    end: int,
    free_bytes: int,
    partition: int,
    partitions: int,
) -> tuple[list[PendingReply], int]:
    """Items of the writes from `at` on by one name, up to `end` or what this way does not take.

    The part in C (`take_writes`) does the same.

    Returns:
        The items, and what is left of `free_bytes`: below 0 nothing more is taken.
    """
    name, head, first = commands[at][0], plan.event_head, plan.first_key
    least, most = plan.arguments_min, plan.arguments_max
    items: list[PendingReply] = []
    while at < end and free_bytes >= 0:
        command = commands[at]
        args = command[1:]
        if command[0] != name or not least <= len(args) <= most:
            break
        value = head + pack_arguments(args)
        if len(value) > RECORD_BYTES_MAX or len(args) > ARGUMENTS_MAX:
            break
        number = slot(args[first])
        if partition_of(number, partitions) != partition:
            break
        entry = make_entry((partition, number.to_bytes(2, "big"), value, None, ()))
        pending = PendingReply(session, plan, plan.name, args, command, entry)
        items.append(pending)
        free_bytes -= pending.size
        at += 1
    return items, free_bytes
