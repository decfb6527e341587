"""The commands of one EXEC: what of them stands in the event, and how each runs, once and in order."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Iterable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog

from engine.commands.registry import SPECS
from engine.errors import CommandError
from engine.values.replies import OK, Reply, TransactionReplies
from resp.catalog.multi_queue import Step
from resp.catalog.plans import CommandKind
from resp.clients.running.tracked import note_next_script, note_read
from resp.wire.server_replies import NO_REPLY
from resp.writes.groups import BROKEN

if TYPE_CHECKING:
    from resp.clients.session import Session
    from resp.writes.write_pipeline import WritePipeline

_GONE: Final = CommandError("ERR the connection was closed before this could run")

logger = structlog.get_logger(__name__)


def evaluate(
    session: Session, pipeline: WritePipeline, steps: list[Step], wall_ms: int = 0, at_ms: int = 0
) -> list[Reply]:
    """The outcomes of those steps that would stand in the event, all of which read, without one. Nothing is changed.

    Args:
        session: whose they are.
        pipeline: where their keys are.
        steps: of the transaction.
        wall_ms: as `Machine.evaluate`.
        at_ms: as `Machine.evaluate`.

    Raises:
        DueError: a key of theirs is due by `wall_ms` and not by the log.
    """
    db = session.db
    replies = TransactionReplies()
    keys: list[bytes] = []
    try:
        for step in steps:
            if step.event is None:
                continue
            script_keys = note_next_script(session, step.plan, pipeline)
            replies.add(_outcome(session, pipeline, step, wall_ms, at_ms, replies), write=False)
            if step.plan.kind is CommandKind.READ:
                keys += step.keys if script_keys is None else script_keys
    finally:
        session.db = db
    if session.tracking is not None:
        note_read(session, pipeline.partition, keys, pipeline.machine.next_offset)
    return replies.kept


def _outcome(
    session: Session, pipeline: WritePipeline, step: Step, wall_ms: int, at_ms: int, replies: TransactionReplies
) -> Reply:
    try:
        replies.check(write=False)
        if step.plan.spec is not None:
            name, *args = step.event or []
            return pipeline.read(SPECS[name], args, session.db, wall_ms, at_ms)
        return _handle(session, step)  # SELECT, for the steps behind it
    except CommandError as error:
        return error


class Run:
    """The steps of one EXEC at work.

    Args:
        session: whose EXEC it is.
        steps: all of them.
        outcomes: of those that the engine has run, in order.
        seconds: how long the engine took for all of those; nobody knows more, so each has an equal share of it.
    """

    def __init__(self, session: Session, steps: list[Step], outcomes: Iterable[Reply], seconds: float) -> None:
        self._session = session
        self._left = iter(steps)
        self._count = len(steps)
        self._share = seconds / (sum(step.event is not None for step in steps) or 1)
        self._outcomes = iter(outcomes)
        self._replies: list[Reply] = []

    def begin(self) -> list[Reply] | Coroutine[Any, Any, list[Reply]]:
        """The replies of all steps; a coroutine that finds them if one of the steps takes its time."""
        self._session.in_exec = self._count
        try:
            for step in self._left:
                reply, seconds = self._timed_reply(step)
                if inspect.iscoroutine(reply):
                    return self._go_on(step, reply, seconds)
                self._note(step, reply, seconds)
        finally:
            self._session.in_exec = 0
        return self._replies

    async def _go_on(self, step: Step, work: Coroutine[Any, Any, Reply], seconds: float) -> list[Reply]:
        """The rest, from a step on that takes its time. The session is held: no other command of it is between."""
        self._session.in_exec = self._count
        try:
            await self._note_awaited(step, work, seconds)
            for later in self._left:
                reply, seconds = await self._session.server.slices.in_fiber(partial(self._timed_reply, later))
                if inspect.iscoroutine(reply):
                    await self._note_awaited(later, reply, seconds)
                else:
                    self._note(later, reply, seconds)
        finally:
            self._session.in_exec = 0
        return self._replies

    async def _note_awaited(self, step: Step, work: Coroutine[Any, Any, Reply], seconds: float) -> None:
        """Note a step that takes its time, beside the `seconds` that it took to begin."""
        began = perf_counter()
        self._note(step, await _awaited(step, work), seconds + perf_counter() - began)

    def _timed_reply(self, step: Step) -> tuple[Any, float]:
        """`_reply`, and how long it took."""
        return self._session.server.slices.timed_call(partial(self._reply, step))

    def _reply(self, step: Step) -> Any:
        """What one step answers, or a coroutine that finds it. A bug of ours ends that step alone."""
        outcome = next(self._outcomes) if step.event is not None else None
        if step.is_served and self._session.closing:  # nobody is there who could subscribe, or be told
            return _GONE
        try:
            if step.is_served:
                return _handle(self._session, step)
            return outcome.as_sent(step.command) if isinstance(outcome, CommandError) else step.shape(outcome)
        except CommandError as error:
            return error
        except Exception:
            logger.exception("command_failed", command=step.plan.shown)
            return BROKEN

    def _note(self, step: Step, reply: Reply, seconds: float) -> None:
        """Each step is a call of its command, with its own time, which is part of the EXEC's as well."""
        self._replies.append(reply)
        seconds = seconds if step.event is None else self._share
        self._session.server.accounting.ended(self._session, step.plan, step.command, reply, seconds)


def _handle(session: Session, step: Step) -> Any:
    """Run one step on the server."""
    if step.error is not None:
        raise step.error
    if step.plan.spec is not None:
        return session.server.read_anywhere(session, step.plan.spec, step.args, session.db)
    assert step.plan.server is not None
    reply = step.plan.server.handler(session, step.args)
    return OK if reply is NO_REPLY else reply


async def _awaited(step: Step, work: Coroutine[Any, Any, Reply]) -> Reply:
    try:
        return await work
    except CommandError as error:
        return error
    except Exception:
        logger.exception("command_failed", command=step.plan.shown)
        return BROKEN
