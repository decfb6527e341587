"""Takes what a client has sent, command by command, and keeps what waits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from resp.catalog.plans import CommandKind
from resp.clients.running import fast_path
from resp.clients.running.dispatch import dispatch
from resp.writes.items import ITEM_BYTES

if TYPE_CHECKING:
    from ingest.applying.slicing.fiber import Fiber
    from resp.clients.session import Session

_BACKLOG_BYTES_MAX: Final = 1024 * 1024
_READ: Final = CommandKind.READ
_NEVER: Final = float("inf")


class Inbox:
    """The commands of one session.

    What may take its time runs in a fiber (ingest/applying/slicing/), with all that was sent behind it: a command that
    is suspended holds its connection.

    Args:
        session: whose they are.

    Attributes:
        backlog: commands that have not begun, as they wait for earlier ones.
        backlog_bytes: of those.
        fiber: in which a command runs now, or is suspended.
    """

    __slots__ = ("_session", "backlog", "backlog_bytes", "fiber")

    def __init__(self, session: Session) -> None:
        self.fiber: Fiber | None = None
        self._session = session
        self.backlog: deque[list[bytes]] = deque()
        self.backlog_bytes = 0

    @property
    def is_suspended(self) -> bool:
        """Whether a command was left in the middle."""
        return self.fiber is not None and self.fiber is not self._session.server.slices.fiber

    @property
    def is_done(self) -> bool:
        """Whether every command is over, or waits for its pending reply."""
        return not self.backlog and self.fiber is None

    def receive(self, commands: list[list[bytes]]) -> None:
        """Run these commands, which have just come, behind those that wait; then send what they have answered."""
        session = self._session
        session.received_commands += len(commands)
        if not session.output.pending_replies:
            session.output.waiting_since = session.last_active
        # `plain` is kept up to date, but for a command that is suspended: no need to ask `is_held` then.
        if self.backlog or not ((session.plain and self.fiber is None) or not session.is_held):
            self._keep(commands)
        else:
            done = self._run(commands)
            if done < len(commands):
                session.server.slices.run(self._run_in_fiber, commands[done:] if done else commands)
        turns = session.turns
        if turns.over or turns.resting:
            turns.rest(len(self.backlog), came=len(commands))
        session.flush()
        if self.backlog and self.backlog_bytes > _BACKLOG_BYTES_MAX:  # a client that has sent very much ahead
            session.transport.pause_reading()

    def resume(self) -> None:
        """Go on with the backlog, if nothing keeps it waiting any more."""
        if self.backlog and self.fiber is None:
            self._session.server.slices.run(self._run_backlog)

    def clear(self) -> None:
        """Forget what has not begun."""
        self.backlog.clear()

    # ------------------------------------------------------------------ inside

    def _keep(self, commands: list[list[bytes]]) -> None:
        """Put them into the backlog. A little of it is read on: else nobody would hear that a blocked client leaves."""
        self.backlog.extend(commands)
        self.backlog_bytes += sum([ITEM_BYTES + sum(map(len, command)) for command in commands])

    def _run(self, commands: list[list[bytes]]) -> int:
        """How many of the commands were taken. The hot path: what is plain goes by fast_path.py.

        Up to one that has to wait; outside of a fiber, to one that may take its time.
        """
        session, fiber = self._session, self.fiber
        plans, pending_replies = session.server.plans.by_spelling, session.output.pending_replies
        session.output.run_bytes = 0
        if fiber is None and len(commands) == 1:
            session.turns.ends = _NEVER  # what takes the short way alone has no next command
        else:
            session.turns.begin()
        at, count = 0, len(commands)
        while at < count:
            command = commands[at]
            plan = plans.get(command[0])
            if plan is not None and session.plain:
                if plan.kind is _READ:
                    if plan.run_kind >= 0 and not pending_replies:
                        taken = fast_path.read_run(session, plan, commands, at)
                        if taken > at:
                            at = taken
                            continue
                    is_short = fiber is not None or len(command) <= plan.short_words
                    if is_short and not pending_replies and fast_path.read(session, plan, command):
                        at += 1
                        continue
                elif plan.first_key >= 0 and (taken := fast_path.write(session, plan, commands, at)) > at:
                    at = taken
                    continue
            runs_here = fiber is not None or (plan is not None and not plan.takes_time)
            if not runs_here or session.turns.is_over() or session.is_held or not dispatch(session, command):
                break
            at += 1
        return at

    def _run_in_fiber(self, commands: list[list[bytes]]) -> None:
        fiber = self.fiber = self._session.server.slices.fiber
        try:
            done = self._run(commands)
        finally:
            self.fiber = None
        if done < len(commands):
            later, self.backlog = self.backlog, deque()  # what came while a command was suspended
            self._keep(commands[done:])
            self.backlog += later
        if fiber is not None and fiber.was_left:
            self._session.turns.rest(len(self.backlog))
            self._go_on()

    def _run_backlog(self) -> None:
        session, backlog = self._session, self.backlog
        session.server.look_at_time()  # they came before now, perhaps before this process stood still
        fiber = self.fiber = session.server.slices.fiber
        try:
            session.turns.begin()
            while backlog:
                command = backlog.popleft()
                if session.plain and fast_path.take(session, command):
                    continue
                if session.turns.is_over() or session.is_held or not dispatch(session, command):
                    backlog.appendleft(command)
                    break
        finally:
            self.fiber = None
        session.output.write_out()
        session.turns.rest(len(backlog))
        if not backlog:
            self.backlog_bytes = 0
            if not session.transport.is_closing():
                session.transport.resume_reading()
        if fiber is not None and fiber.was_left:
            self._go_on()

    def _go_on(self) -> None:
        """A command was suspended, and is done: nobody who called waits for it."""
        self._session.refresh()
        asyncio.get_running_loop().call_soon(self._session.flush)
