"""Runs a client's commands for some milliseconds, then lets other clients run."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from resp.statistics.stats import Stats

TURN_SECONDS: Final = 0.005
"""A command under way is not interrupted: a turn takes this long and the rest of that command."""


class TurnTaker(Protocol):
    """A client whose commands run.

    Attributes:
        last_active: when bytes came from it, on the monotonic clock.
        plain: whether commands may take the short way.
    """

    last_active: float
    plain: bool

    @property
    def is_held(self) -> bool:
        """Whether a command that takes its time keeps the later ones waiting."""
        ...

    def refresh(self) -> None:
        """Find out anew whether commands may take the short way."""
        ...

    def flush(self) -> None:
        """Send what is there, and go on with what waits."""
        ...


class Turns:
    """One client's.

    Args:
        session: whose.
        pending_replies: the places of its replies that are still to come.
        stats: takes how long requests took.

    Attributes:
        ends: when the commands that run now make room for others, on `perf_counter`'s clock.
        over: the next command waits for another turn.
        resting: commands of it wait for its next turn.
    """

    __slots__ = (
        *("_has_run", "_owed", "_owed_since", "_pending_replies", "_session", "_stats"),
        *("ends", "over", "resting"),
    )

    def __init__(self, session: TurnTaker, pending_replies: Sized, stats: Stats) -> None:
        self.ends = 0.0
        self.resting = False
        self._session = session
        self._pending_replies = pending_replies
        self._stats = stats
        self.over = self._has_run = False
        self._owed = 0
        self._owed_since = 0.0

    def begin(self) -> None:
        """Commands are about to run."""
        self.ends = perf_counter() + TURN_SECONDS
        self._has_run = False

    def end(self) -> None:
        """The next command waits for another turn. What takes the short way says so, as it has looked at the clock."""
        self.over = True
        self._session.plain = False

    def is_over(self) -> bool:
        """Whether the next command waits for another turn; the first one never does, however long it is looked at."""
        if not self.over:
            self.over = self._has_run and perf_counter() > self.ends
            self._has_run = True
        return self.over

    def rest(self, left: int, *, came: int = 0) -> None:
        """Commands have run. If some are left that the turn had no time for, they have another one.

        Args:
            left: so many commands wait, for whatever reason.
            came: so many of all have just come.
        """
        if self.over:
            self.over = False
            if left and not self.resting:
                self.resting = True
                asyncio.get_running_loop().call_soon(self._wake)
            self._session.refresh()
        if self.resting and came:
            if not self._owed:
                self._owed_since = self._session.last_active
            self._owed += came

    def _wake(self) -> None:
        session = self._session
        self.resting = False
        session.refresh()
        session.flush()
        if self._owed and not self.resting:
            if not self._pending_replies and not session.is_held:
                self._stats.request_seconds.add(monotonic() - self._owed_since, self._owed)
            self._owed = 0
