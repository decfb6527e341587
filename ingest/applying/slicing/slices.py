"""Runs a machine's work in slices: a command over millions of elements holds its partition, not the process.

Work on a machine runs on a greenlet, which has its own stack. When it has run for a slice of time, a signal of the
interval timer ends the slice: the greenlet is suspended, the event loop runs, and later the greenlet resumes. The
engine knows nothing of this. Work that ends within its slice is not affected.

Only what a machine does is suspended, and the encoding of a reply: nothing else has to expect it. Who needs a machine
that was left in the middle waits at its gate (ingest/applying/slicing/gate.py).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

import structlog
from greenlet import GreenletExit, getcurrent

from engine.apply.machine import Machine
from ingest.applying.slicing.fiber import AbandonedError, Fiber, Holder
from ingest.applying.slicing.finalizing import Finalizing

SLICE_SECONDS: Final = 0.005
"""How long a command runs before the event loop turns."""

Callers = frozenset[CodeType] | None

_MACHINE: Final = (Machine.apply.__code__, Machine.evaluate.__code__, Machine.commit.__code__)
_SOON_SECONDS: Final = 0.0005  # when the signal met no place where it may suspend
_AGAIN_SECONDS: Final = 0.1  # when the signal was lost; far longer than a slice, so that none meets its own handler
_IDLE_MAX: Final = 32

Result = TypeVar("Result")

logger = structlog.get_logger(__name__)


def _let_go_on() -> None:
    """The work goes on without its caller."""


class Slices:
    """Runs work of one process in slices.

    Args:
        seconds: how long a slice is.

    Attributes:
        suspensions: how often work was suspended.
        longest_seconds: how long the longest slice was that was ended by a suspension.
        left_at: when something was last suspended, on `perf_counter`'s clock.
        entrances: what may be suspended, with all that it calls: functions, and from which others each is called then;
            None: from any.
    """

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self.suspensions = 0
        self.longest_seconds = self.left_at = 0.0
        self._seconds = seconds
        self.entrances: dict[CodeType, Callers] = dict.fromkeys(_MACHINE)
        self._holders: list[Holder] = []
        self._idle: list[Fiber] = []
        self._began = 0.0
        self._armed = True  # as long as it is not started there is no timer to set
        self._whole = self._ends_slice = False
        self._finalizing = Finalizing()

    # ------------------------------------------------------------------ life

    @contextmanager
    def timed(self) -> Iterator[None]:
        """End slices, meanwhile, by the interval timer, in the main thread; otherwise each is as long as its work."""
        before = signal.signal(signal.SIGALRM, self._on_timer)
        signal.siginterrupt(signal.SIGALRM, False)
        timer = signal.setitimer(signal.ITIMER_REAL, 0)
        self._armed = False
        try:
            with self._finalizing.watched():
                yield
        finally:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def add_holder(self, holder: Holder, entrance: CodeType) -> None:
        """What is suspended behind `holder`, also in its own function `entrance`, is left for it to keep others out."""
        self._holders.append(holder)
        self.entrances[entrance] = None

    # ------------------------------------------------------------------ running

    def run(self, work: Callable[..., None], *args: Any) -> bool:
        """Run `work(*args)` until it is done or suspended. The event loop resumes suspended work by itself.

        Returns:
            Whether it is done.

        Raises:
            Exception: its own, unless it was suspended before; then it is logged.
        """
        fiber = self._idle.pop() if self._idle else Fiber(self.work_on)
        current = getcurrent()
        if fiber.parent is not current:
            fiber.parent = current
        done: bool | Exception = fiber.switch(work, args)
        if done is False and type(current) is Fiber:
            self._begin()  # the caller's slice was ended with that of the suspended one
        if isinstance(done, Exception):
            raise done
        return bool(done)

    def work_on(self, work: Callable[..., None], args: tuple[Any, ...]) -> bool | Exception:
        """Run one piece of work after the other in a fiber."""
        fiber = getcurrent()
        assert isinstance(fiber, Fiber)
        while True:
            fiber.begin()
            if type(fiber.parent) is not Fiber:
                self._begin()
            done: bool | Exception = True
            try:
                work(*args)
            except Exception as error:
                done = error
                if fiber.was_left:
                    logger.exception("work_failed")
            if len(self._idle) >= _IDLE_MAX:
                return done
            self._idle.append(fiber)
            del work, args
            work, args = fiber.leave(done)

    async def in_fiber(self, work: Callable[[], Result], left: Callable[[], None] = _let_go_on) -> Result:
        """Return what `work` returns. It may be suspended.

        Args:
            work: what runs.
            left: called when the caller is cancelled before the work is done.
        """
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if self.run(_settle, outcome, work):
            return outcome.result()
        try:
            return await outcome
        except asyncio.CancelledError:
            if outcome.cancelled():  # else it was done in this turn of the loop, and another one may be suspended now
                left()
            raise

    @property
    def fiber(self) -> Fiber | None:
        """The fiber of the caller, if it may be suspended."""
        fiber = getcurrent()
        return fiber if isinstance(fiber, Fiber) else None

    def pause(self, frame: FrameType | None) -> bool:
        """Suspend what runs in `frame`, if that is allowed; it resumes in the event loop's next turn."""
        fiber = getcurrent()
        if type(fiber) is not Fiber or self._whole or self._finalizing.has(frame):
            return False
        entrance = self._entrance(frame)
        if entrance is None:
            return False
        handle, holder = self.later(fiber), self._holder(entrance)
        if holder is not None:
            holder.suspend(fiber, handle)
        self.suspensions += 1
        self.longest_seconds = max(self.longest_seconds, perf_counter() - self._began)
        self._ends_slice = False
        self._leave(fiber)
        return True

    def later(self, fiber: Fiber) -> asyncio.Handle:
        """Resume a fiber in the event loop's next turn."""
        return asyncio.get_running_loop().call_soon(self.go_on, fiber)

    def _entrance(self, frame: FrameType | None) -> FrameType | None:
        """The frame around this one that may be suspended with all that it has called; None when there is none."""
        while frame is not None:
            if frame.f_code in self.entrances:
                callers = self.entrances[frame.f_code]
                if callers is None or (frame.f_back is not None and frame.f_back.f_code in callers):
                    return frame
            frame = frame.f_back
        return None

    def _holder(self, entrance: FrameType) -> Holder | None:
        inside = entrance.f_locals.get("self")
        return next((holder for holder in self._holders if holder.guards(inside)), None)

    def wait(self) -> None:
        """Suspend the caller's fiber until `go_on`."""
        fiber = getcurrent()
        assert isinstance(fiber, Fiber)
        self._leave(fiber)

    def running_seconds(self) -> float:
        """A clock that stands still while the caller is suspended, for how long something may go on."""
        fiber = getcurrent()
        return perf_counter() - fiber.away_seconds if type(fiber) is Fiber else perf_counter()

    def own_seconds(self, began: float) -> float:
        """How long the caller has run since `began`, on `perf_counter`'s clock: without the time it was suspended."""
        seconds = perf_counter() - began
        if self.left_at > began and isinstance(fiber := getcurrent(), Fiber):
            seconds -= fiber.away_since(began)
        return seconds

    def timed_call(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """What `work` returns, and its `own_seconds`."""
        began = perf_counter()
        result = work()
        return result, self.own_seconds(began)

    def _leave(self, fiber: Fiber) -> None:
        left = self.left_at = perf_counter()
        fiber.was_left = True
        try:
            fiber.leave(done=False)
        finally:
            fiber.was_away(left, perf_counter() - left)
            if fiber.is_ended or type(fiber.parent) is not Fiber:
                self._begin()

    def go_on(self, fiber: Fiber) -> None:
        """Go on with a fiber that was suspended, or that has waited. In the event loop."""
        gate, fiber.gate = fiber.gate, None
        fiber.parent = getcurrent()
        if gate is not None:
            gate.resume()
        fiber.switch()
        if gate is not None:
            gate.let_in()

    def end(self, fiber: Fiber) -> None:
        """End what was suspended in `fiber`, in one piece: a GreenletExit is raised where it was left.

        Something of it may swallow that. So it is raised again, after each slice in which the work has not ended.
        """
        fiber.parent = getcurrent()
        fiber.is_ended = True
        with self.whole():
            fiber.throw(GreenletExit)
        fiber.is_ended = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Suspend nothing inside of this context. A slice that is over meanwhile ends soon behind it."""
        before, self._whole = self._whole, True
        try:
            yield
        finally:
            self._whole = before
            if not (before or self._armed) and type(getcurrent()) is Fiber:
                self._arm(_SOON_SECONDS)

    # ------------------------------------------------------------------ time

    def _begin(self) -> None:
        """A slice begins. In its fiber: a signal that came between this and the fiber would find nothing to suspend.

        Then nothing would set the timer again before the fiber has ended.
        """
        self._began = perf_counter()
        if not self._armed:
            self._arm(self._seconds)

    def _arm(self, seconds: float) -> None:
        """Set the timer. It repeats until the signal was handled, as a signal may be lost.

        Linux gives it to another thread while one, such as SIGTERM, is pending at a main thread that was preempted
        (`wants_signal` in kernel/signal.c). RocksDB's threads are none of Python's: there the interpreter notes the
        signal, and does not wake the main thread for it.
        """
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)

    def _on_timer(self, _signal: int, frame: FrameType | None) -> None:
        """End the slice if it is over. Runs in the main thread, between two instructions, and so also inside of itself.

        The timer repeats. Where it came again while a fiber was being suspended, that was suspended twice, and the
        second time nobody resumed it.

        Raises:
            GreenletExit: the work that runs was ended before.
        """
        if self._ends_slice:
            return
        self._ends_slice = True
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._armed = False
            self._end_slice(frame)
        finally:
            self._ends_slice = False

    def _end_slice(self, frame: FrameType | None) -> None:
        fiber = getcurrent()
        if type(fiber) is not Fiber or (self._whole and not fiber.is_ended):
            return
        left = self._began + self._seconds - perf_counter()
        if left > 0:
            self._arm(left)
        elif fiber.is_ended:
            self._arm(_SOON_SECONDS)
            entrance = self._entrance(frame)  # None: it has left what it was suspended in, and answers for itself
            if entrance is not None and self._holder(entrance) is not None and not self._finalizing.has(frame):
                raise GreenletExit
        elif not self.pause(frame):
            self._arm(_SOON_SECONDS)


def _settle(outcome: asyncio.Future[Result], work: Callable[[], Result]) -> None:
    try:
        result = work()
    except GreenletExit:
        if not outcome.done():
            outcome.set_exception(AbandonedError())
        raise
    except BaseException as error:  # noqa: BLE001 - handed on, whatever it is: nobody else would hear of it
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(result)
