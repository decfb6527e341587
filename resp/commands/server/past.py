"""SLOTLOG AT and ASOF: reads as of a moment, one or all of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.values.replies import OK, Reply
from resp.catalog.plans import CommandKind
from resp.clients.looking_back import read_past
from resp.commands.handlers import server_command
from resp.commands.server.slotlog import keys_of_inner

if TYPE_CHECKING:
    from resp.clients.session import Session

_NOW: Final = b"NOW"


@server_command(
    "SLOTLOG AT moment command [arg ...]",
    group="slotlog",
    since="1",
    of="slotlog",
    complexity="O(N) where N is the events between that moment and the nearest state before it",
    flags=("readonly", "no_multi"),
    categories=("slow", "read", "dangerous"),
    container=True,
    large_reply=True,
    access="RO",  # the command in it is looked at by itself
    keys=keys_of_inner,
    inner=lambda args: args[1:],
)
async def at(session: Session, args: list[bytes]) -> Reply:
    """Run a read on the state as it was before an offset, or before the first event at a time."""
    moment, *command = args
    plan = session.server.plans.find(command)
    if plan is None or plan.kind is not CommandKind.READ:
        raise CommandError("ERR SLOTLOG AT takes a command that reads: the past cannot be changed")
    inner = command[2:] if b"|" in plan.name else command[1:]
    if not plan.arguments_min <= len(inner) <= plan.arguments_max:
        raise CommandError(f"ERR wrong number of arguments for '{plan.shown}' command")
    return await read_past(session, moment, plan, inner)


@server_command(
    "SLOTLOG ASOF moment",
    group="slotlog",
    since="1",
    of="slotlog",
    flags=("no_multi",),
    categories=("slow", "connection", "dangerous"),
    container=True,
)
def asof(session: Session, args: list[bytes]) -> Reply:
    """Let all further reads of this connection be of that moment, until `SLOTLOG ASOF NOW`; writes are refused."""
    (moment,) = args
    if moment.upper() == _NOW:
        session.as_of = None
    else:
        session.server.host.check_moment(moment)
        session.as_of = moment
    session.refresh()
    return OK
