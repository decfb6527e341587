"""CLIENT PAUSE: the commands of all clients, or those that write, wait for a while."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from resp.catalog.multi_queue import Queue
    from resp.catalog.plans import Plan

_NEVER_HELD: Final = b"SLOTLOG|PEER-"  # what no client of this worker sends


class Pausable(Protocol):
    """A client that may have to wait.

    Attributes:
        transaction: its open MULTI.
    """

    transaction: Queue | None

    def resume(self) -> None:
        """Go on with the commands that wait."""
        ...


class Pause:
    """The pause of one server.

    Args:
        changed: called when it begins or ends.

    Attributes:
        is_on: whether there is one now.
        until: when it ends, on the monotonic clock.
        writes_only: it is for commands that write alone.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.is_on = False
        self.until = 0.0
        self.writes_only = False
        self._changed = changed
        self._waiting: dict[Pausable, None] = {}

    def begin(self, timeout_ms: int, *, writes_only: bool) -> None:
        """Pause for so long. Of two pauses the stricter and the longer count, as in Redis."""
        until = monotonic() + timeout_ms / 1000
        self.writes_only = writes_only and (self.writes_only or not self.is_on)
        self.until = max(until, self.until) if self.is_on else until
        self.is_on = True
        self._changed()

    def end(self) -> None:
        """Let everybody go on."""
        self.is_on = self.writes_only = False
        self._changed()
        waiting, self._waiting = self._waiting, {}
        for session in waiting:
            session.resume()

    def end_if_due(self) -> None:
        """Let everybody go on when the time is over."""
        if self.is_on and monotonic() >= self.until:
            self.end()

    def holds(self, session: Pausable, plan: Plan) -> bool:
        """Whether the command has to wait, one that is to be queued too; the session goes on with it at the end.

        While all commands wait, CLIENT UNPAUSE does, as in Redis: the time alone ends such a pause.
        """
        if not self.is_on or plan.name.startswith(_NEVER_HELD):
            return False
        if self.writes_only and not _writes(plan):
            queue = session.transaction if plan.name == b"EXEC" else None
            if queue is None or not any(_writes(step.plan) for step in queue.steps):
                return False
        self._waiting[session] = None
        return True

    def keeps(self, session: Pausable) -> bool:
        """Whether the session waits for the end."""
        return session in self._waiting

    def forget(self, session: Pausable) -> None:
        """The session is gone."""
        self._waiting.pop(session, None)


def _writes(plan: Plan) -> bool:
    some = plan.spec or plan.server
    return plan.write or (some is not None and some.like_write)
