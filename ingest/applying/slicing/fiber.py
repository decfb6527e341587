"""A stack on which work can be suspended and resumed, for slices (ingest/applying/slicing/slices.py)."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Protocol

from greenlet import greenlet

from slotlog.shared.errors import PicklableError


class AbandonedError(PicklableError):
    """The machine was closed while a command was suspended in it, or waited for it; nothing of it was committed."""

    def __init__(self) -> None:
        super().__init__("the partition was closed meanwhile")


class Holder(Protocol):
    """Keeps others out of a machine while work in it is suspended: the machine's gate."""

    def guards(self, inside: object) -> bool:
        """Whether work is inside of it that runs in a method of `inside`."""
        ...

    def suspend(self, fiber: Fiber, handle: asyncio.Handle) -> None:
        """Note that `fiber` is suspended inside; `handle` resumes it."""
        ...

    def resume(self) -> None:
        """Note that the fiber is resumed."""
        ...

    def let_in(self) -> None:
        """Let the next caller in, if nobody is inside."""
        ...


class Fiber(greenlet):
    """A stack on which one piece of work after the other runs.

    Attributes:
        gate: of the machine in which it was left; None while it runs, or waits.
        is_ended: its present work is to end, and not to go on.
        was_left: its present work was suspended, or has waited: whoever gave it has gone on.
        away_seconds: how long it was left, all in all.
    """

    def __init__(self, work: Callable[..., object]) -> None:
        super().__init__(work)
        self.gate: Holder | None = None
        self.is_ended = self.was_left = False
        self.away_seconds = 0.0
        self._left_at, self._away_before = array("d"), array("d")  # of the absences of its present work

    def begin(self) -> None:
        """Begin a piece of work."""
        if self.was_left:
            self.was_left = False
            self._left_at, self._away_before = array("d"), array("d")

    def was_away(self, left: float, seconds: float) -> None:
        """It was left at `left`, on `perf_counter`'s clock, for so long."""
        self._left_at.append(left)
        self._away_before.append(self.away_seconds)
        self.away_seconds += seconds

    def away_since(self, began: float) -> float:
        """How long it was left since `began`, when its present work was under way."""
        at = bisect_left(self._left_at, began)
        return self.away_seconds - self._away_before[at] if at < len(self._left_at) else 0.0

    def leave(self, done: bool | Exception) -> Any:
        """Resume the code that gave this fiber its slice, with this progress. Returns in the next slice."""
        assert self.parent is not None
        return self.parent.switch(done)
