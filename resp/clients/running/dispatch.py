"""Decides what becomes of a command: refused, queued in a MULTI, read, written, or run by the server.

The checks stand in the order of Redis' own, as the first one that fails gives the error text.
"""

from __future__ import annotations

from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Final

import structlog

from engine.apply.admission import pattern_refusal
from engine.commands.registry import SPECS, Spec
from engine.commands.streams.read_options import waits
from engine.errors import CommandError, DueError
from engine.values.replies import Status
from resp.catalog.plans import CommandKind, Plan
from resp.catalog.server_registry import CONTAINERS, find_subcommand
from resp.clients.addresses import Endpoint
from resp.clients.authorization import denial, needs_memory, script_event, write_in
from resp.clients.running.event_words import submit_write
from resp.clients.running.long_commands import start
from resp.clients.running.looking_back import read_past, refusal_in_past
from resp.clients.running.multi import aborted, reads_here, show_when_run
from resp.clients.running.tracked import note_next_script, note_read, pending_read
from resp.clients.running.wrong_counts import own_error
from resp.messages.monitor import NO_KEYS_WHILE_MONITORING, allowed_while_monitoring, is_shown, is_shown_late
from resp.messages.pubsub import allowed_while_subscribed, not_while_subscribed
from resp.resources.shortage import OUT_OF_MEMORY
from resp.wire.protocol import TooLarge
from resp.wire.server_replies import NO_REPLY
from resp.writes.entries import TOO_LARGE
from resp.writes.groups import BROKEN
from resp.writes.stopping import READ_ONLY, WAITS_FOR_GROUP, about_keys
from slotlog.shared.errors import wrong_arity

if TYPE_CHECKING:
    from resp.clients.running.pending_reply import PendingReply
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline

QUEUED: Final = Status(b"QUEUED")
# Measured: an attribute of an Enum takes 900 instructions more than a global; PING took 76,000 with five of them.
_READ, _WRITE, _SERVER, _CONTAINER = CommandKind.READ, CommandKind.WRITE, CommandKind.SERVER, CommandKind.CONTAINER
_NOAUTH: Final = CommandError("NOAUTH Authentication required.")
_SHOWN_BYTES: Final = 128
_OF_SENTINEL: Final = frozenset(
    b"ACL AUTH CLIENT COMMAND HELLO INFO PING PSUBSCRIBE PUBSUB PUNSUBSCRIBE QUIT RESET ROLE SENTINEL SUBSCRIBE "
    b"UNSUBSCRIBE".split()
)
"""What a Sentinel's address takes."""

_HELD: Final = CommandError("")
"""No refusal: the command waits for its partition."""

logger = structlog.get_logger(__name__)


def dispatch(session: Session, command: list[bytes]) -> bool:
    """Run, queue or refuse `command`. False: not now, it has to wait for earlier ones; call again later.

    A bug of ours ends that command alone: what called this has other clients to serve.
    """
    try:
        return _dispatch(session, command)
    except Exception:
        logger.exception("command_failed", command=command[0])
        session.answer(BROKEN)
        return True


def _dispatch(session: Session, command: list[bytes]) -> bool:
    server = session.server
    plan = server.plans.find(command)
    if plan is not None and session.endpoint is Endpoint.SENTINEL and plan.name.partition(b"|")[0] not in _OF_SENTINEL:
        plan = None
    session.last_command = b"" if plan is None else plan.name  # whatever becomes of it: ACL LOG shows what was refused
    args = command[1:] if plan is None or b"|" not in plan.name else command[2:]
    if plan is not None and plan.waiting is not None and session.transaction is None and waits(plan.name, args):
        plan = plan.waiting
    if plan is not None and plan.reading is not None and _only_reads(session, plan, args):
        if server.slices.fiber is None:
            return False  # it may take its time: this is called again in a fiber
        plan = plan.reading
    refusal = _refusal(session, plan, command, args)
    if refusal is _HELD:
        return False
    if plan is None or refusal is not None:
        return _refuse(session, plan, command, refusal or CommandError("ERR unknown command"))
    queue = session.transaction
    queued = queue is not None and (plan.server is None or plan.server.queued)
    if server.pause.holds(session, plan) or (not queued and _must_wait(session, plan, args)):
        return False
    _begin(session, plan, command, queued=queued)
    if queue is not None and queued:
        queue.add(plan, command, own_error(plan, args) if server.clustered else None)
        session.answer(QUEUED)
        return True
    if plan.kind is _SERVER:
        _serve(session, plan, command, args)
        return True
    try:
        if session.as_of is not None:
            start(session, plan, command, read_past(session, session.as_of, plan, args))
        elif plan.kind is _READ:
            _read(session, plan, command, args)
        else:
            _write(session, plan, command, args)
    except CommandError as error:
        _done(session, plan, command, error, 0.0)
    return True


def _only_reads(session: Session, plan: Plan, args: list[bytes]) -> bool:
    """Whether a script, or an XREADGROUP, is known to change nothing, so that it needs no event.

    Behind commands that are on their way it is not: one of them may flush the scripts, or add an entry.
    """
    if session.transaction is not None or session.output.pending_replies or len(args) < plan.arguments_min:
        return False
    try:
        pipeline = session.server.router.reader_of(session, plan.keys(args))
    except CommandError:
        return False
    assert plan.spec is not None
    return pipeline.owned.worker.is_open and pipeline.machine.only_reads(plan.spec, args, session.db)


# ---------------------------------------------------------------------- checks


def _refusal(session: Session, plan: Plan | None, command: list[bytes], args: list[bytes]) -> CommandError | None:
    """Why the command cannot run, in the order of Redis' checks; None when it can."""
    if plan is None:
        return TOO_LARGE if type(command) is TooLarge else CommandError(_unknown(command))
    if plan.kind is _CONTAINER or (args and plan.name in CONTAINERS):
        try:
            find_subcommand(plan.name, args)
        except CommandError as error:
            return error
    if not plan.arguments_min <= len(args) <= plan.arguments_max:
        return CommandError(wrong_arity(plan.shown))
    flags = plan.server.flags if plan.server is not None else ()
    if not session.authenticated and "no_auth" not in flags and session.must_log_in:
        return _NOAUTH
    if session.transaction is not None and "no_multi" in flags:
        return CommandError("ERR Command not allowed inside a transaction")
    if not session.user.unrestricted and "no_auth" not in flags:
        denied = denial(session.server, session, plan, command, args)
        if denied is not None:
            return denied
    plan, args = write_in(session.server, plan, args)
    shortage = session.server.shortage
    if shortage.is_on and (shortage.refuses(plan, session.transaction) or needs_memory(session, plan, args)):
        return OUT_OF_MEMORY
    if session.protocol == 2 and session.is_subscriber and not allowed_while_subscribed(plan.name):
        return CommandError(not_while_subscribed(plan.shown))
    if session.monitoring and not allowed_while_monitoring(plan):
        return CommandError(NO_KEYS_WHILE_MONITORING)
    if session.as_of is not None and (denied := refusal_in_past(session.as_of, plan)) is not None:
        return denied
    if plan.kind is not _SERVER or plan.server is None or plan.server.keys is not None:
        return _place_refusal(session, plan, args)
    return None if "loading" in flags or session.endpoint is Endpoint.SENTINEL else _loading(session)


def _loading(session: Session) -> CommandError | None:
    """The error of a command that needs no partition while the server loads: clients PING to learn when it is ready."""
    if session.server.served and not session.server.clustered:  # there is one partition, and it takes all
        return None
    if session.server.is_standby and not session.server.replicas:
        return WAITS_FOR_GROUP
    serving = session.server.replicas if session.server.is_standby else session.server.pipelines
    coming = [pipeline for pipeline in serving.values() if pipeline.is_coming]
    if len(coming) < len(serving) and session.server.settings.grouped:  # it serves some, and is taking another one
        return None
    return coming[0].refusal(write=False) if coming else None


def _place_refusal(session: Session, plan: Plan, args: list[bytes]) -> CommandError | None:
    """Keys that are not here, or a partition that takes nothing now."""
    spec = plan.spec
    if session.server.clustered and spec is not None and spec.write:  # as events these would be dead letters
        if spec.standalone:
            return CommandError(f"ERR {spec.name.decode()} is not allowed in cluster mode")
        if spec.keyless and session.transaction is not None:
            return CommandError(f"ERR {spec.name.decode()} cannot be part of a transaction in cluster mode")
        if spec.keyless and session.at_replica:
            return READ_ONLY
    if session.server.clustered and (wrong := own_error(plan, args)) is not None:
        return None if session.transaction is not None else wrong
    keys: list[bytes] = []
    try:
        keys = plan.keys(args)
        pipeline = _pipeline_of(session, plan, keys)
    except CommandError as error:
        return _HELD if session.server.holding.holds(session, keys) else error
    if session.server.clustered and spec is not None and spec.patterns is not None:
        refusal = pattern_refusal(spec, args)
        if refusal is not None:
            return CommandError(refusal)
    unready = pipeline.refusal(write=plan.write)
    if unready is None:
        return None
    if session.server.holding.holds(session, keys):
        return _HELD
    return about_keys(unready, session.server.partitions)


def _pipeline_of(session: Session, plan: Plan, keys: list[bytes]) -> WritePipeline:
    """Where these keys are for this command; CommandError when they are not here."""
    server = session.server
    reads = plan.kind is _READ or (server.is_standby and plan.kind is _SERVER and not plan.changes)
    return server.router.reader_of(session, keys) if reads else server.router.pipeline_of(keys)


def _refuse(session: Session, plan: Plan | None, command: list[bytes], error: CommandError) -> bool:
    _mute(session)
    if session.tracking is not None:
        session.tracking.begin(plan, in_multi=session.transaction is not None)
    if plan is not None and plan.name == b"EXEC":
        error = aborted(session, error)
    elif session.transaction is not None:
        session.transaction.dirty = True
    is_unknown = plan is not None and plan.name in CONTAINERS and len(command) > 1  # it has no such subcommand
    if is_unknown:
        session.last_command = b""
    session.server.accounting.refused(None if is_unknown else plan, error)
    session.answer(error)
    return True


def _unknown(command: list[bytes]) -> str:
    """Redis' text, which shows the beginning of the arguments, each up to its first NUL."""
    name, *args = (word.partition(b"\0")[0].decode(errors="surrogateescape") for word in command)
    shown = ""
    for arg in args:
        if len(shown) >= _SHOWN_BYTES:
            break
        shown += f"'{arg[: _SHOWN_BYTES - len(shown)]}' "
    return f"ERR unknown command '{name[:_SHOWN_BYTES]}', with args beginning with: {shown}"


# ---------------------------------------------------------------------- running


def _must_wait(session: Session, plan: Plan, args: list[bytes]) -> bool:
    """Whether the command cannot begin yet. What it waits for calls `session.resume`."""
    server, output = session.server, session.output
    if output.is_full:
        return True
    if plan.returns_data and len(output.pending_replies) >= output.window.commands:
        return True
    if plan.server is not None:
        if plan.name == b"EXEC" and _waits_for_partition(session):
            return True
        if output.pending_replies and (not plan.server.immediate or (plan.name == b"EXEC" and reads_here(session))):
            return True
        return (plan.server.appends or plan.server.inner is not None) and any(
            server.is_crowded(session, pipeline) for pipeline in server.pipelines.values()
        )
    assert plan.spec is not None
    if server.clustered and plan.spec.keyless:
        return bool(output.pending_replies)
    if plan.kind is _WRITE or output.pending_replies:
        return server.is_crowded(session, _pipeline_of(session, plan, plan.spec.keys(args)))
    return False


def _waits_for_partition(session: Session) -> bool:
    """Whether the partition of an open transaction moves just now."""
    queue = session.transaction
    if queue is None or queue.dirty:
        return False
    return session.server.holding.holds(session, [key for step in queue.steps for key in step.keys])


def _begin(session: Session, plan: Plan, command: list[bytes], *, queued: bool) -> None:
    """What every command that is taken does first. Those in a queue are shown when they run, as in Redis."""
    server = session.server
    _mute(session)
    if session.tracking is not None:
        session.tracking.begin(plan, in_multi=session.transaction is not None)
    if server.monitors.any and not queued and is_shown(plan) and not is_shown_late(plan):
        server.monitors.feed(session, session.db, command)


def _mute(session: Session) -> None:
    """Whether this command's reply is left out: CLIENT REPLY OFF, or SKIP for one."""
    muted = session.reply_mode != "on"
    if session.reply_mode == "skip":
        session.reply_mode = "on"
    if muted != session.muted:
        session.muted = muted
        session.refresh()


def _done(session: Session, plan: Plan, command: list[bytes], reply: object, seconds: float) -> None:
    if isinstance(reply, CommandError):
        reply = reply.as_sent(command)
    session.server.accounting.ended(session, plan, command, reply, seconds)
    session.answer(reply)


def _serve(session: Session, plan: Plan, command: list[bytes], args: list[bytes]) -> None:
    assert plan.server is not None
    db, queue = session.db, session.transaction
    session.served_plan, session.served_command = plan, command
    began = perf_counter()
    try:
        reply = plan.server.handler(session, args)
    except CommandError as error:
        reply = error
    if session.server.monitors.any and is_shown_late(plan):
        steps = [] if queue is None or isinstance(reply, CommandError) or plan.name != b"EXEC" else queue.steps
        show_when_run(session, db if plan.name == b"EXEC" else session.db, steps, command)
    if type(reply) is CoroutineType:
        start(session, plan, command, reply)
        return
    session.served_command = []
    seconds = session.server.slices.own_seconds(began)
    if reply is not NO_REPLY:
        _done(session, plan, command, reply, seconds)
    elif plan.server.inner is not None:
        session.server.accounting.ended_for_another(plan)
    elif not plan.server.appends:
        session.server.accounting.ended(session, plan, command, None, seconds)


def _read(session: Session, plan: Plan, command: list[bytes], args: list[bytes]) -> None:
    assert plan.spec is not None
    server = session.server
    pipeline = script_keys = None
    began = perf_counter()
    if server.clustered and plan.spec.keyless:
        reply = server.router.keyspace_of(session).read(plan.spec, args, server.wall_ms)
    else:
        pipeline = server.router.reader_of(session, plan.spec.keys(args))
        if (
            session.output.pending_replies and pipeline.answers.pending_events
        ):  # else its writes are in other partitions
            session.output.pending_replies.append(pending := _pending_read(session, pipeline, plan, args, command))
            pipeline.submit(pending)
            return
        spec, words = _as_user(session, plan, args, pipeline) if plan.is_script else (plan.spec, args)
        script_keys = note_next_script(session, plan, pipeline)
        try:
            reply = pipeline.read(spec, words, session.db, server.wall_ms)
        except DueError:
            session.output.pending_replies.append(pending := _pending_read(session, pipeline, plan, args, command))
            pipeline.submit_after_tick(pending)
            return
        except CommandError as error:  # Redis tracks the keys of a read that failed, too
            reply = error
        if reply is None and server.pause.is_on and plan.name == b"RANDOMKEY":
            # As in Redis: no key goes now, so one that is due is there.
            reply = pipeline.read(plan.spec, args, session.db)
    if session.tracking is None or pipeline is None:
        _done(session, plan, command, reply, server.slices.own_seconds(began))
        return
    read_offset = pipeline.machine.next_offset  # now: a long reply may be suspended while it is encoded
    _done(session, plan, command, reply, server.slices.own_seconds(began))
    keys = plan.spec.keys(args) if script_keys is None else list(script_keys)
    note_read(session, pipeline.partition, keys, read_offset)


def _as_user(session: Session, plan: Plan, args: list[bytes], pipeline: WritePipeline) -> tuple[Spec, list[bytes]]:
    """A script that reads, with the rights of the session's user."""
    name, words = script_event(session, plan, args, pipeline)
    return SPECS[name], words


def _pending_read(
    session: Session, pipeline: WritePipeline, plan: Plan, args: list[bytes], command: list[bytes]
) -> PendingReply:
    pending = pending_read(session, pipeline, plan, args, command)
    if plan.is_script:
        pending.spec, pending.args = _as_user(session, plan, args, pipeline)
        pending.name = pending.spec.name
    return pending


def _write(session: Session, plan: Plan, command: list[bytes], args: list[bytes]) -> None:
    assert plan.spec is not None
    server = session.server
    if server.clustered and plan.spec.keyless:
        start(session, plan, command, server.write_everywhere(plan.name, args))
        return
    keys = plan.spec.keys(args)
    submit_write(session, plan, server.router.pipeline_of(keys), command, keys)
