"""The event of a client's command: its own words, or what they come to on this worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.commands.options import read_integer
from engine.errors import DB_OUT_OF_RANGE, CommandError
from resp.clients.authorization import script_event
from resp.clients.running.tracked import pending_write
from resp.writes.entries import event_entry
from slotlog.shared.limits import DATABASES

if TYPE_CHECKING:
    from resp.catalog.plans import Plan
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline

_ANOTHER_DATABASE: Final = "ERR Copying to another database is not allowed in cluster mode"


def submit_write(
    session: Session,
    plan: Plan,
    pipeline: WritePipeline,
    command: list[bytes],
    keys: list[bytes],
    event_id: bytes | None = None,
) -> None:
    """Append one command, as the client has sent it, as an event; its reply is pending until it is applied.

    Raises:
        CommandError: the event would be too large.
    """
    args = command[2:] if b"|" in plan.name else command[1:]
    name, words = event_words(session, plan, args, pipeline)
    entry = event_entry(pipeline.partition, name, words, keys, db=session.db, event_id=event_id)
    pending = pending_write(session, plan, args, command, entry, event_id)
    pending.name, pending.args = name, words
    session.output.pending_replies.append(pending)
    pipeline.submit(pending)


def event_words(session: Session, plan: Plan, args: list[bytes], pipeline: WritePipeline) -> tuple[bytes, list[bytes]]:
    """The name and the arguments of a command as its event has them.

    Raises:
        CommandError: its event would be a dead letter.
    """
    if plan.is_script:
        return script_event(session, plan, args, pipeline)
    if plan.name == b"COPY" and session.server.clustered:
        return plan.name, _without_database(args)
    return plan.name, args


def _without_database(args: list[bytes]) -> list[bytes]:
    """COPY without `DB 0`, as go-redis always sends it: no event in a cluster names a database.

    Raises:
        CommandError: it names another database than 0.
    """
    words = args[:2]
    options = iter(args[2:])
    for option in options:
        index = next(options, None) if option.upper() == b"DB" else None
        if index is None:
            words.append(option)
        elif (database := read_integer(index)) != 0:
            raise CommandError(_ANOTHER_DATABASE if 0 < database < DATABASES else DB_OUT_OF_RANGE)
    return words
