"""Commands that take their time: a coroutine finds the reply, and the later commands of its connection wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog

from engine.errors import CommandError
from engine.values.replies import Reply
from resp.blocking.waiters import NoLongerAllowedError
from resp.catalog.plans import Plan
from resp.writes.groups import BROKEN

if TYPE_CHECKING:
    from resp.clients.session import Session

_LEAST_SECONDS: Final = 1e-9  # of a command that did next to nothing but wait

logger = structlog.get_logger(__name__)


def start(session: Session, plan: Plan, command: list[bytes], work: Coroutine[Any, Any, Reply]) -> None:
    """Let a coroutine find the reply; later commands wait for it."""
    session.task = asyncio.get_running_loop().create_task(_finish(session, plan, command, work, session.muted))
    session.waits = plan.server is not None and "blocking" in plan.server.flags
    session.waited_seconds = 0.0
    session.refresh()


async def _finish(
    session: Session, plan: Plan, command: list[bytes], work: Coroutine[Any, Any, Reply], muted: bool
) -> None:
    accounting, began = session.server.accounting, perf_counter()
    try:
        reply = await work
    except NoLongerAllowedError as error:
        accounting.refused(plan, error)
        _let_go(session, CommandError(error.message), muted=muted)
        return
    except CommandError as error:
        reply = error
    except Exception:
        logger.exception("command_failed", command=plan.shown)
        reply = BROKEN
    seconds = max(_LEAST_SECONDS, perf_counter() - began - session.waited_seconds)
    accounting.ended(session, plan, command, reply, seconds)
    _let_go(session, reply, muted=muted)


def _let_go(session: Session, reply: Reply, *, muted: bool) -> None:
    """The command that held the connection is done."""
    session.task = None
    session.waits = False
    session.served_command = []
    session.muted = muted
    session.refresh()
    session.answer(reply)
    session.flush()
