"""Admission of connections and authorization of commands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

import structlog

from engine.errors import CommandError, hidden_pattern
from resp.acl.log import Context, Reason
from resp.acl.protection import may_connect
from resp.catalog.plans import CommandKind, Plan
from resp.clients.addresses import is_loopback
from resp.clients.client_list import line_of
from resp.clients.output import FREE_BYTES
from slotlog.clock import now_ms

if TYPE_CHECKING:
    from engine.apply.script_calls import ScriptDenial
    from resp.clients.session import Session
    from resp.clients.shared import Shared
    from resp.writes.write_pipeline import WritePipeline

_CHOKED_SECONDS_MAX: Final = 60.0
_TOO_MANY: Final = CommandError("ERR max number of clients reached")

logger = structlog.get_logger(__name__)


def admission(server: Shared[Session], transport: asyncio.Transport) -> CommandError | None:
    """Why a new connection is turned away; None when it is let in."""
    if len(server.sessions) >= server.config["maxclients"]:
        return _TOO_MANY
    refusal = may_connect(
        server.acl.default_user, is_loopback=is_loopback(transport), is_protected=server.settings.protected
    )
    return None if refusal is None else CommandError(refusal)


def denial(
    server: Shared[Session],
    session: Session,
    plan: Plan,
    command: list[bytes],
    args: list[bytes],
    context: Context | None = None,
) -> CommandError | None:
    """Why the session's user may not do this; it is counted, and noted in the ACL's log.

    Args:
        server: whose client it is.
        session: the client.
        plan: of the command.
        command: as the client sent it.
        args: what follows the name, or the subcommand.
        context: as `note_refusal` has it.
    """
    user = session.user
    for each, words in _commands(server, plan, args):
        refused = user.denial(each.name, words, session.db)
        if refused is not None:
            note_refusal(session, refused.reason, refused.denied, user.name, context)
            return CommandError(refused.error(user.name))
        patterns = each.spec.patterns(words) if each.spec is not None and each.spec.patterns is not None else ()
        if patterns and not user.reads_all_keys(each.name, words):
            return CommandError(hidden_pattern(patterns[0][0]))
    return None


def _commands(server: Shared[Session], plan: Plan, args: list[bytes]) -> Iterator[tuple[Plan, list[bytes]]]:
    """The command and its arguments, and the one on data that it runs, if any."""
    yield plan, args
    if plan.server is None or plan.server.inner is None:
        return
    words = plan.server.inner(args)
    inner = server.plans.find(words)
    if inner is None or inner.kind not in {CommandKind.READ, CommandKind.WRITE}:
        return
    inner_args = words[2:] if b"|" in inner.name else words[1:]
    if inner.arguments_min <= len(inner_args) <= inner.arguments_max:
        yield inner, inner_args


def write_in(server: Shared[Session], plan: Plan, args: list[bytes]) -> tuple[Plan, list[bytes]]:
    """The write that a command on the server runs, which is checked as if it stood alone; any other command itself.

    SLOTLOG AT of a write runs none: it says so itself.
    """
    if plan.server is not None and plan.server.inner is not None and "write" in plan.server.flags:
        *_, (inner, words) = _commands(server, plan, args)
        if inner.write:
            return inner, words
    return plan, args


def script_event(session: Session, plan: Plan, args: list[bytes], pipeline: WritePipeline) -> tuple[bytes, list[bytes]]:
    """The name and the arguments of a script's event, or read: with the user's rights, and whether memory is short."""
    server, name = session.server, plan.spec.name if plan.spec is not None else plan.name
    if server.clustered:
        name, args = server.known_scripts.event(pipeline, name, args)
    return session.user.as_user(name, args, without_memory=server.shortage.is_on)


def needs_memory(session: Session, plan: Plan, args: list[bytes]) -> bool:
    """Whether a script says that it may not run while more than `maxmemory` is used."""
    if plan.spec is None or plan.spec.needs_memory is None:
        return False
    try:
        pipeline = session.server.router.pipeline_of(plan.keys(args))
    except CommandError:
        return False
    return pipeline.owned.worker.is_open and pipeline.machine.needs_memory(plan.spec, args)


def cut_off(server: Shared[Session]) -> None:
    """Close the connections that have taken too long: to log in, to say anything, to read what waits for them."""
    now = monotonic()
    idle_seconds = server.config["timeout"]
    if server.acl.default_user.needs_no_password:
        server.last_open = now
    for session in list(server.sessions.values()):
        if session.must_log_in and now - max(session.created, server.last_open) > server.settings.handshake_seconds:
            session.close("it did not authenticate in time")
        elif session.choked and now - session.choked_since > _CHOKED_SECONDS_MAX:
            server.stats.output_limit_disconnections += 1
            logger.warning("client_does_not_read", client=session.id, output_bytes=session.output_bytes)
            session.kill()
        elif _is_over_soft_limit(session, now):
            session.output.cut_off(session.output_bytes)
        elif (
            idle_seconds
            and now - session.last_active > idle_seconds
            and not (session.is_subscriber or session.blocked or session.monitoring)
        ):
            session.close("it was idle")


def _is_over_soft_limit(session: Session, now: float) -> bool:
    """Whether more than the soft limit has waited for the client for longer than it may."""
    limit = session.output.limit
    if not limit.soft_bytes or session.output_bytes - FREE_BYTES <= limit.soft_bytes:
        session.over_soft_limit_since = 0.0
        return False
    session.over_soft_limit_since = session.over_soft_limit_since or now
    return bool(now - session.over_soft_limit_since > limit.soft_seconds)


def note_script_denials(session: Session, denials: Mapping[ScriptDenial, int]) -> None:
    """Note in `ACL LOG` what the rights of the session's user have refused to its script. They are counted already."""
    server = session.server
    for denial, count in denials.items():
        reason = cast("Reason", denial.reason)
        server.acl.log.add(reason, "lua", denial.denied, denial.user, line_of(session), now_ms(), count)
    if count := server.refusals.count():
        address = session.address.decode()
        logger.warning("resp_refused", reason="script", client=session.id, address=address, count=count)


def note_refusal(
    session: Session, reason: Reason, denied: bytes, user_name: bytes, context: Context | None = None
) -> None:
    """Count what the ACL refused, and note it in `ACL LOG`.

    Args:
        session: the client.
        reason: what was refused.
        denied: the command, key, channel or database; for `auth` the command that would have logged in.
        user_name: who was refused, or who somebody wanted to be.
        context: where; None: in a transaction if the client is in one now.
    """
    server = session.server
    counter = f"denied_{reason}"
    setattr(server.stats, counter, getattr(server.stats, counter) + 1)
    here: Context = "toplevel" if session.transaction is None else "multi"
    server.acl.log.add(reason, context or here, denied, user_name, line_of(session), now_ms())
    if count := server.refusals.count():
        address = session.address.decode()
        logger.warning("resp_refused", reason=reason, client=session.id, address=address, count=count)
