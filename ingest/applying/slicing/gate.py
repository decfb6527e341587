"""Keeps others out of a machine in which a command is suspended (ingest/applying/slicing/slices.py).

Such a machine is *held*: it refuses every call with a MachineHeldError, and callers wait here, in order. So what a
command reads does not change while it is suspended, and nobody sees half of its writes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TypeVar

from greenlet import getcurrent

from engine.apply.machine import Machine
from ingest.applying.slicing.fiber import AbandonedError, Fiber
from ingest.applying.slicing.slices import Slices

Result = TypeVar("Result")


class Gate:
    """Lets one caller at a time enter a machine; the others wait in order.

    Args:
        slices: of the process, which may suspend what is inside.

    Attributes:
        machine: the open one.
    """

    def __init__(self, slices: Slices) -> None:
        self.machine: Machine | None = None
        self.slices = slices
        self._fiber: Fiber | None = None
        self._handle: asyncio.Handle | None = None
        self._held_since = 0.0
        self._waiting: deque[Fiber | asyncio.Future[None]] = deque()
        slices.add_holder(self, Gate.hold.__code__)

    @property
    def is_held(self) -> bool:
        """Whether the machine cannot be entered: a command is suspended in it, or others wait for it."""
        return self.machine is not None and self.machine.is_held

    @property
    def held_seconds(self) -> float:
        """For how long commands have been under way in the machine, one after the other, since one was suspended."""
        return 0.0 if self._fiber is None else perf_counter() - self._held_since

    def enter(self) -> None:
        """Return when the machine can be entered. For a caller that cannot wait, finish the suspended work first."""
        if self.machine is None or not self.machine.is_held:
            return
        fiber = getcurrent()
        if isinstance(fiber, Fiber):
            self._waiting.append(fiber)
            self.slices.wait()
            while self._fiber is not None:
                self._waiting.appendleft(fiber)
                self.slices.wait()
        else:
            with self.slices.whole():
                self._finish()
        self._open()

    async def free(self) -> None:
        """Wait until the machine can be entered, which must be done at once."""
        if self.machine is None or not self.machine.is_held:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        while True:
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.cancelled():
                    with suppress(ValueError):  # its turn has come meanwhile, and was left out
                        self._waiting.remove(waiting)
                else:
                    self.let_in()  # it was this one's fiber
                raise
            if self._fiber is None:
                break
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.appendleft(waiting)
        self._open()

    async def call(self, work: Callable[[], Result]) -> Result:
        """Return what `work` on the machine returns. It begins when nobody else is inside, and runs in slices.

        Raises:
            AbandonedError: the machine was closed meanwhile.
            Exception: its own.
        """
        machine = self.machine
        await self.free()
        if self.machine is not machine:
            raise AbandonedError
        return await self.slices.in_fiber(work, self.abandon)

    def hold(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, which reads what is behind the machine: it may be suspended, and nobody enters then."""
        return work()

    async def rollback(self) -> None:
        """`Machine.rollback`, behind what is suspended in it; nothing when the machine is closed.

        In a fiber: it is done whether or not the caller, who may have been cancelled already, waits for it.
        """
        await self.slices.in_fiber(self._rollback)

    def close(self) -> None:
        """Release the machine as it is: suspended work ends, and waiting callers notice by themselves."""
        self._end_work()
        self.machine = None
        self._let_all_in()
        self._held_since = 0.0

    def abandon(self) -> None:
        """End the suspended work, as if it had never begun."""
        if self._end_work() and self.machine is not None:
            self.machine.rollback()
        self._let_all_in()

    def _end_work(self) -> bool:
        """End the suspended work, and leave behind what it has done; returns whether there was any."""
        fiber, machine = self._fiber, self.machine
        if fiber is None or machine is None:
            return False
        self._unhook()
        machine.is_held = False
        fiber.gate = None
        self.slices.end(fiber)
        return True

    # ------------------------------------------------------------------ of `Slices`

    def guards(self, inside: object) -> bool:
        """Whether work is behind this gate that runs in a method of `inside`: of the machine, or `hold`."""
        return inside is self or (self.machine is not None and inside is self.machine)

    def suspend(self, fiber: Fiber, handle: asyncio.Handle) -> None:
        """Note that `fiber` is suspended inside the machine."""
        assert self.machine is not None
        self.machine.is_held = True
        self._fiber, self._handle = fiber, handle
        self._held_since = self._held_since or perf_counter()
        fiber.gate = self

    def resume(self) -> None:
        """Note that the fiber is resumed."""
        assert self.machine is not None
        self._unhook()
        self.machine.is_held = False

    def let_in(self) -> None:
        """Let the next caller in, if nobody is in the machine."""
        if self._fiber is None and self.machine is not None:
            self._held_since = 0.0
            self._leave_out_cancelled()
            self.machine.is_held = bool(self._waiting)  # nobody overtakes those who wait
            if self._waiting:
                self._next()

    # ------------------------------------------------------------------ inside

    def _rollback(self) -> None:
        self.enter()
        if self.machine is not None:
            self.machine.rollback()

    def _unhook(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._fiber = self._handle = None

    def _finish(self) -> None:
        while (fiber := self._fiber) is not None:
            fiber.gate = None
            fiber.parent = getcurrent()
            self.resume()
            fiber.switch()

    def _open(self) -> None:
        """Let the caller in, and the others behind it."""
        if self.machine is not None:
            self.machine.is_held = False
        if self._waiting:
            asyncio.get_running_loop().call_soon(self.let_in)

    def _leave_out_cancelled(self) -> None:
        """Leave out those at the head who were cancelled, and have not run since: nobody would come in."""
        while self._waiting and not isinstance(waiting := self._waiting[0], Fiber) and waiting.done():
            self._waiting.popleft()

    def _next(self) -> None:
        waiting = self._waiting.popleft()
        if isinstance(waiting, Fiber):
            self.slices.go_on(waiting)
        else:
            waiting.set_result(None)

    def _let_all_in(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if isinstance(each, Fiber):
                asyncio.get_running_loop().call_soon(self.slices.go_on, each)
            elif not each.done():
                each.set_result(None)
