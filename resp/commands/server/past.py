"""SLOTLOG AT, ASOF and HISTORY: reads as of a moment, and the events of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply
from resp.catalog.plans import CommandKind
from resp.clients.running.looking_back import read_past
from resp.commands.handlers import server_command
from resp.commands.server.slotlog import keys_of_inner

if TYPE_CHECKING:
    from resp.clients.session import Session

_NOW: Final = b"NOW"
_COUNT: Final = 100
"""Events of a history, where nobody says how many."""


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


@server_command(
    "SLOTLOG HISTORY key [COUNT count] [FROM offset] [UNTIL moment] [VALUES]",
    group="slotlog",
    since="1",
    of="slotlog",
    complexity="O(N) where N is the events that the key depends on",
    flags=("readonly", "admin", "no_multi"),
    categories=("slow", "admin", "dangerous"),
    container=True,
    large_reply=True,
    access="RO",
)
async def history(session: Session, args: list[bytes]) -> Reply:
    """Return the last events (100) that named or changed a key, each as a map, with VALUES before and after."""
    key, *options = args
    count, from_offset, until, values = _COUNT, 0, None, False
    while options:
        word = options.pop(0).upper()
        if word == b"VALUES":
            values = True
        elif word == b"COUNT" and options:
            count = _number(options.pop(0), least=1)
        elif word == b"FROM" and options:
            from_offset = _number(options.pop(0), least=0)
        elif word == b"UNTIL" and options:
            until = options.pop(0)
        else:
            raise CommandError("ERR syntax error")
    partition = session.server.router.pipeline_of([key]).partition
    return await session.server.host.read_history(partition, key, session.db, count, from_offset, until, values=values)


def _number(text: bytes, *, least: int) -> int:
    number = parse_int(text)
    if number is None or number < least:
        raise CommandError("ERR value is not an integer or out of range")
    return number
