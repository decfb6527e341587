"""Reads of the past: one of them, or all of a connection that looks around as of a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import CommandError
from engine.values.replies import Reply
from resp.catalog.plans import Plan

if TYPE_CHECKING:
    from resp.clients.session import Session

_OF_NOW: Final = frozenset({b"MULTI", b"WATCH"})
_BLOCKING: Final = "blocking"


async def read_past(session: Session, moment: bytes, plan: Plan, args: list[bytes]) -> Reply:
    """The reply of a reading command as of a moment.

    Raises:
        CommandError: its own error; or there is no such state; or it has no key that says which partition to ask.
    """
    server, spec = session.server, plan.spec
    assert spec is not None
    keys = spec.keys(args)
    if not keys and server.clustered:
        raise CommandError(f"ERR {plan.shown} over several partitions as of a moment: name a key")
    partition = server.router.pipeline_of(keys).partition
    name, words = session.user.as_user(spec.name, args) if plan.is_script else (spec.name, args)
    return await server.host.read_past(partition, moment, name, words, session.db)


def refusal_in_past(moment: bytes, plan: Plan) -> CommandError | None:
    """Why a connection that reads as of a moment may not send a command: it is none that reads."""
    waits = plan.server is not None and _BLOCKING in plan.server.flags
    if not (plan.write or waits or plan.name in _OF_NOW):
        return None
    shown = moment.decode(errors="surrogateescape")
    return CommandError(
        f"ERR {plan.shown} does not read the past, and this connection reads as of {shown}; nothing was written:"
        " SLOTLOG ASOF NOW ends that"
    )
