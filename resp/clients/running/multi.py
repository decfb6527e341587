"""MULTI: commands are checked and queued; EXEC makes one event of those that the engine runs.

An EXEC that only reads, and has nothing watched, is no event. Commands of the server (PUBLISH, CLIENT …), and reads
that count what is physically there (DBSIZE, SCAN …), cannot stand in an event: they run right after it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog

from engine.errors import CommandError, DueError
from engine.values.replies import NIL_ARRAY, Reply
from resp.catalog.multi_queue import Step
from resp.catalog.plans import Plan
from resp.clients.authorization import denial
from resp.clients.running.event_words import event_words
from resp.clients.running.exec_steps import Run, evaluate
from resp.clients.running.pending_reply import PendingReply
from resp.clients.running.tracked import note_transaction, note_write
from resp.wire.server_replies import NO_REPLY
from resp.writes.entries import event_entry
from resp.writes.stopping import about_keys
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.errors import CROSS_SLOT
from slotlog.shared.slots import slot

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline

ABORTED: Final = CommandError("EXECABORT Transaction discarded because of previous errors.")

logger = structlog.get_logger(__name__)


def execute(session: Session, plan: Plan) -> Reply:
    """EXEC: its reply, or NO_REPLY when that comes later, or a coroutine that finds it.

    Raises:
        CommandError: nothing of it runs.
    """
    reading = reads_here(session)
    queue, session.transaction = session.transaction, None
    session.refresh()
    assert queue is not None
    if queue.dirty:
        unwatch(session)
        raise ABORTED
    steps = queue.steps
    _check_rights(session, steps)
    keys = [key for step in steps for key in step.keys]
    watch_id = None if session.watched_partition is None else session.watch_id
    try:
        pipeline = _pipeline_of(session, keys, reading=reading)
        for step in steps:
            if step.plan.is_script or step.plan.name == b"COPY":
                name, args = event_words(session, step.plan, step.args, pipeline)
                step.event = [name, *args]
            elif step.plan.name == b"SELECT" and session.server.clustered:
                step.event = None  # there is one database: the server alone has its reply
        if reading:
            return _read(session, pipeline, steps)
        _check(session, pipeline, write=True)
        pending = PendingExec(session, plan, steps, _entry(session, pipeline, steps, keys, watch_id), watch_id)
    except CommandError:
        unwatch(session)
        raise
    session.watched_partition = None  # the event ends the watches
    session.watched_keys.clear()
    session.output.pending_replies.append(pending)
    if any(step.is_served for step in steps):
        session.transacting = pending  # these change what later commands mean, such as the database
        session.refresh()
    pipeline.submit(pending)
    return NO_REPLY


def show_when_run(session: Session, db: int, steps: list[Step], command: list[bytes]) -> None:
    """Let MONITOR show what has run: an EXEC with watches when its outcome is there, all else at once."""
    pending = session.output.pending_replies[-1] if session.output.pending_replies else None
    if steps and isinstance(pending, PendingExec) and pending.watch_id is not None and pending.data is None:
        pending.shown = db, command
    else:
        session.server.monitors.feed_all(session, db, steps, command)


def _pipeline_of(session: Session, keys: list[bytes], *, reading: bool) -> WritePipeline:
    """The write pipeline of the transaction.

    Raises:
        CommandError: its keys, and the watched ones, are not in one place.
    """
    server, watched = session.server, session.watched_partition
    if keys and watched is not None and server.clustered and slot(keys[0]) != session.watched_slot:
        raise CommandError(CROSS_SLOT)
    if watched is None or keys:
        return server.router.reader_of(session, keys) if reading else server.router.pipeline_of(keys)
    pipeline = server.pipelines.get(watched)
    if pipeline is None:
        raise CommandError("EXECABORT Transaction discarded because of: another worker owns the watched keys now")
    return pipeline


def _check(session: Session, pipeline: WritePipeline, *, write: bool) -> None:
    """Raise why the write pipeline takes nothing now."""
    refusal = pipeline.refusal(write=write)
    if refusal is not None:
        raise about_keys(refusal, session.server.partitions)


def _read(session: Session, pipeline: WritePipeline, steps: list[Step]) -> Reply:
    """All of it here and now, without an event: the replies, or a coroutine that finds them."""
    if any(step.plan.spec is not None for step in steps):
        _check(session, pipeline, write=False)
    began = perf_counter()
    try:
        outcomes = evaluate(session, pipeline, steps, wall_ms=session.server.wall_ms)
    except DueError:
        return _read_after_tick(session, pipeline, steps)
    return Run(session, steps, outcomes, session.server.slices.own_seconds(began)).begin()


async def _read_after_tick(session: Session, pipeline: WritePipeline, steps: list[Step]) -> Reply:
    """`_read` of keys that are due, which a TICK in the log removes; by the wall clock when the log is away."""
    tick = await pipeline.write(b"TICK", [])
    _check(session, pipeline, write=False)
    at_ms = session.server.wall_ms if isinstance(tick, CommandError) else 0
    slices = session.server.slices
    outcomes, seconds = await slices.in_fiber(
        partial(slices.timed_call, partial(evaluate, session, pipeline, steps, at_ms=at_ms))
    )
    replies = Run(session, steps, outcomes, seconds).begin()
    return await replies if inspect.iscoroutine(replies) else replies


def _check_rights(session: Session, steps: list[Step]) -> None:
    """The user's rights may have changed since a command was queued; as one event, all of it runs or nothing."""
    if session.user.unrestricted:
        return
    for step in steps:
        error = denial(session.server, session, step.plan, step.command, step.args, "multi")
        if error is not None:
            unwatch(session)
            raise CommandError(f"EXECABORT Transaction discarded because of: {error.message}")


def reads_here(session: Session) -> bool:
    """Whether EXEC would read here and now, so that earlier writes of the connection must be applied first."""
    queue = session.transaction
    return (
        queue is not None
        and not queue.dirty
        and session.watched_partition is None
        and not any(step.plan.write for step in queue.steps if step.event is not None)
    )


def aborted(session: Session, error: CommandError) -> CommandError:
    """EXEC itself is refused: that ends the transaction. Returns what to say."""
    session.transaction = None
    session.refresh()
    unwatch(session)
    return CommandError(f"EXECABORT Transaction discarded because of: {error.message.removeprefix('ERR ')}")


def unwatch(session: Session) -> None:
    """End the session's watches, if it has any, without waiting for it."""
    partition, session.watched_partition = session.watched_partition, None
    session.watched_keys.clear()
    pipeline = None if partition is None else session.server.pipelines.get(partition)
    if pipeline is not None:
        pipeline.submit(_Unwatch(session, pipeline))


class _Unwatch(PendingReply):
    """An UNWATCH without a client that waits for its reply."""

    __slots__ = ()

    def __init__(self, session: Session, pipeline: WritePipeline) -> None:
        value = encode("UNWATCH", [], session=session.watch_id)
        plan = session.server.plans.by_name[b"UNWATCH"]
        entry = Entry(pipeline.partition, None, value)
        super().__init__(session, plan, b"UNWATCH", [], [], entry, watch_id=session.watch_id)

    def answer(self, reply: Reply, seconds: float) -> None:
        """Nobody waits."""


class PendingExec(PendingReply):
    """An EXEC that is an event on its way. What runs on the server runs when its outcome is there.

    Attributes:
        shown: the database, and the command as it was sent, for MONITOR once the outcome is there.
    """

    __slots__ = ("_reads", "_steps", "_work", "shown")

    def __init__(self, session: Session, plan: Plan, steps: list[Step], entry: Entry, watch_id: bytes | None) -> None:
        args = [step.event for step in steps if step.event is not None]
        super().__init__(session, plan, b"EXEC", args, session.served_command, entry, watch_id=watch_id)
        self._steps = steps
        self.shown: tuple[int, list[bytes]] | None = None
        self._work: asyncio.Task[None] | None = None
        self._reads = session.tracking is not None and session.tracking.wants_keys

    def answer(self, reply: Reply, seconds: float) -> None:
        """Complete the outcome, unless the transaction did not run."""
        super().answer(reply, seconds)
        has_run = reply is not NIL_ARRAY and not isinstance(reply, CommandError)
        if self.session.tracking is not None:
            note_write(self.session, self)
            if self._reads and has_run and self.entry is not None:
                note_transaction(self.session, self.entry.partition, self._steps, self.offset)
        if self.shown is not None:
            db, command = self.shown
            self.session.server.monitors.feed_all(self.session, db, self._steps if has_run else [], command)
        if not has_run:
            self._end()
            return
        self.data = None
        replies = Run(self.session, self._steps, reply, seconds).begin()
        if inspect.iscoroutine(replies):
            self._work = asyncio.get_running_loop().create_task(self._fill_later(replies))
        else:
            self.fill(replies)
            self._end()

    async def _fill_later(self, work: Coroutine[Any, Any, list[Reply]]) -> None:
        try:
            self.fill(await work)
            self._end()
        except Exception:
            logger.exception("transaction_failed")
            self.lose()
        self.session.server.flush()

    def lose(self) -> None:
        """As a pending reply."""
        super().lose()
        self._end()

    def _end(self) -> None:
        """Later commands may go on."""
        if self.session.transacting is self:
            self.session.transacting = None
            self.session.refresh()


def _entry(
    session: Session, pipeline: WritePipeline, steps: list[Step], keys: list[bytes], watch_id: bytes | None
) -> Entry:
    events = [step.event for step in steps if step.event is not None]
    return event_entry(pipeline.partition, b"EXEC", events, keys, db=session.db, watch_id=watch_id)
