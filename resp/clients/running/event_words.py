"""The words of a client's command in its event: its own, or what they come to on this worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.values.numbers import parse_int
from resp.clients.authorization import script_event

if TYPE_CHECKING:
    from resp.catalog.plans import Plan
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline


def event_words(session: Session, plan: Plan, args: list[bytes], pipeline: WritePipeline) -> tuple[bytes, list[bytes]]:
    """The name and the arguments of a command as its event has them."""
    if plan.is_script:
        return script_event(session, plan, args, pipeline)
    if plan.name == b"COPY" and session.server.clustered:
        return plan.name, _without_database(args)
    return plan.name, args


def _without_database(args: list[bytes]) -> list[bytes]:
    """COPY without `DB 0`, as go-redis always sends it: no event in a cluster names a database."""
    words = args[:2]
    options = iter(args[2:])
    for option in options:
        index = next(options, None) if option.upper() == b"DB" else None
        if index is None or parse_int(index) != 0:
            words += [option] if index is None else [option, index]
    return words
