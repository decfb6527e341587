"""SLOTLOG: commands that Redis lacks: log positions, waiting for one, writes safe to repeat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from engine.commands.registry import keys_of
from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import NIL_ARRAY, Map, Reply
from resp.catalog.plans import CommandKind
from resp.clients.running.event_words import submit_write
from resp.commands.handlers import Client, server_command
from resp.wire.server_replies import NO_REPLY
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.shared.errors import EventError
from slotlog.shared.limits import ID_BYTES_MAX

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.writes.replica_pipeline import ReplicaPipeline
    from resp.writes.write_pipeline import WritePipeline
    from slotlog.log import Log

_FIRST_OF_COMMAND: Final = 1


class LogState(Protocol):
    """A server's log, and how far it is applied."""

    log: Log
    pipelines: dict[int, WritePipeline]
    replicas: dict[int, ReplicaPipeline]


class LogClient(Client[LogState], Protocol):
    """A client that asks where its writes are.

    Attributes:
        last_position: partition and offset of its last write.
        in_exec: how many commands the EXEC has that runs, 0 for none; then it waits for nothing.
    """

    last_position: tuple[int, int] | None
    in_exec: int


@server_command(
    "SLOTLOG POSITION",
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("loading", "fast"),
    categories=("fast", "connection"),
    container=True,
)
def position(client: LogClient, args: list[bytes]) -> Reply:
    """Return partition and offset of this connection's last write; nil if there was none."""
    return NIL_ARRAY if client.last_position is None else list(client.last_position)


@server_command(
    "SLOTLOG WAITFOR partition offset timeout-ms",
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("blocking", "loading"),
    categories=("slow", "connection", "blocking"),
    container=True,
)
async def waitfor(client: LogClient, args: list[bytes]) -> Reply:
    """Wait until this worker, which owns or follows the partition, has applied that offset.

    Returns 1, or 0 at the timeout; a timeout of 0 waits for ever.
    """
    numbers = [parse_int(arg) for arg in args]
    if any(number is None or number < 0 for number in numbers):
        raise CommandError("ERR value is not an integer or out of range")
    partition, offset, timeout_ms = (number or 0 for number in numbers)
    pipeline = client.server.pipelines.get(partition) or client.server.replicas.get(partition)
    if pipeline is None:
        raise CommandError(f"ERR partition {partition} is not applied by this worker")
    if client.in_exec:  # which waits for nothing
        committed = pipeline.owned.committed
        return int(committed is not None and committed.next_offset > offset)
    try:
        async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
            await pipeline.reached(offset)
    except TimeoutError:
        return 0
    return 1


@server_command(
    "SLOTLOG STATUS",
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("loading",),
    categories=("slow", "admin"),
    container=True,
)
async def status(client: LogClient, args: list[bytes]) -> Reply:
    """Return for each partition of this worker: condition, next offset, clock, lag, and where its log begins."""
    return [await _status_of(client, pipeline) for pipeline in list(client.server.pipelines.values())]


async def _status_of(client: LogClient, pipeline: WritePipeline) -> Reply:
    committed = pipeline.owned.committed
    next_offset = committed.next_offset if committed is not None else 0
    try:
        lag: int | None = max(0, await client.server.log.end_offset(pipeline.partition) - next_offset)
    except (LogUnavailableError, LogMismatchError):  # then nobody knows
        lag = None
    return Map(
        [
            (b"partition", pipeline.partition),
            (b"condition", str(pipeline.owned.condition).encode()),
            (b"reason", pipeline.owned.reason.encode(errors="surrogateescape")),
            (b"next_offset", next_offset),
            (b"clock_ms", committed.clock_ms if committed is not None else 0),
            (b"lag", lag),
            (b"pending", pipeline.answers.pending_events),
            (b"log_begin_offset", pipeline.owned.begin_offset),
        ]
    )


def keys_of_inner(args: list[bytes]) -> list[bytes]:
    """The keys of the command behind the first argument; none where it cannot be read: the handler says why."""
    try:
        return keys_of(args[1], args[2:])
    except EventError:
        return []


@server_command(
    "SLOTLOG ONCE id command [arg ...]",
    group="slotlog",
    since="1",
    of="slotlog",
    complexity="depends on the command",
    flags=("write", "no_multi"),
    categories=("slow", "write"),
    immediate=True,
    container=True,
    large_reply=True,
    access="RO",  # the command in it is looked at by itself
    keys=keys_of_inner,
    inner=lambda args: args[1:],
)
def once(session: Session, args: list[bytes]) -> Reply:
    """Run a write once: sent again with the same id within a day, it changes nothing and has the first reply."""
    event_id, *command = args
    server = session.server
    plan = server.plans.find(command)
    if not 0 < len(event_id) <= ID_BYTES_MAX:
        raise CommandError(f"ERR the id must have 1 to {ID_BYTES_MAX} bytes")
    if plan is None or plan.kind is not CommandKind.WRITE or plan.spec is None:
        raise CommandError("ERR SLOTLOG ONCE takes a command that writes")
    inner = command[_FIRST_OF_COMMAND:]
    if not plan.arguments_min <= len(inner) <= plan.arguments_max:
        raise CommandError(f"ERR wrong number of arguments for '{plan.shown}' command")
    keys = plan.spec.keys(inner)
    if not keys and server.clustered:
        raise CommandError("ERR SLOTLOG ONCE takes a command that names a key")
    submit_write(session, plan, server.router.pipeline_of(keys), command, keys, event_id)
    return NO_REPLY
