"""`Slices` and `Gate` by themselves: work that is left in the middle, and who waits for it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any, Final

import pytest

from engine.apply.machine import Machine
from engine.commands.registry import SPECS
from engine.errors import MachineHeldError
from engine.store.memory import MemoryStore
from ingest.applying.slicing.fiber import AbandonedError
from ingest.applying.slicing.gate import Gate
from ingest.applying.slicing.slices import Slices
from tests.layouts import home_of
from tests.resp.harness import FAMILIES, PATIENCE_SECONDS, until

OFF: Final = (0.0, 0.0)
MEMBERS: Final = [b"a", b"b", b"c"]


class Stepping(MemoryStore):
    """Suspends whoever scans it, as often as the test wants."""

    def __init__(self, slices: Slices) -> None:
        super().__init__(FAMILIES)
        self._slices = slices
        self.pauses = 0
        self.scanned: Callable[[], None] = lambda: None

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records, behind the pauses."""
        while self.pauses > 0 and self._slices.pause(sys._getframe()):
            self.pauses -= 1
        self.scanned()
        return super().scan(column_family, start, end, reverse=reverse)


class Place:
    """A machine with a set of three members, its gate and its slices."""

    def __init__(self) -> None:
        self.slices = Slices()
        self.store = Stepping(self.slices)
        self.machine = Machine(self.store, home_of())
        self.machine.apply([(0, 1, b"SADD", [b"s", *MEMBERS], 0, None, None)], 0)
        self.machine.commit(None)
        self.gate = Gate(self.slices)
        self.gate.machine = self.machine

    def members(self) -> list[bytes]:
        """SMEMBERS, which scans."""
        reply: Any = self.machine.evaluate(SPECS[b"SMEMBERS"], [b"s"], 0)
        return sorted(reply)

    async def held(self) -> asyncio.Task[list[bytes]]:
        """The task of a read that is suspended until `store.pauses` is 0."""
        self.store.pauses = sys.maxsize
        task = asyncio.create_task(self.gate.call(self.members))
        await until(lambda: self.gate.is_held)
        return task


DOORS: Final[dict[str, Callable[[Machine], object]]] = {
    "apply": lambda machine: machine.apply([], 1),
    "evaluate": lambda machine: machine.evaluate(SPECS[b"SCARD"], [b"s"], 0),
    "read": lambda machine: machine.read(b"SCARD", [b"s"]),
    "begin_cleaning": lambda machine: machine.begin_cleaning(),
    "commit": lambda machine: machine.commit(None),
    "rollback": lambda machine: machine.rollback(),
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_held_machine_refuses_everybody(door: str) -> None:
    """Nobody enters a machine in which a command is suspended; afterwards everybody may, and its reply is whole."""
    place = Place()
    task = await place.held()
    with pytest.raises(MachineHeldError):
        DOORS[door](place.machine)
    place.store.pauses = 0

    assert MEMBERS == await task
    DOORS[door](place.machine)


async def test_who_waits_enters_in_order() -> None:
    """Coroutines and fibers go through the gate in the order in which they came, behind what was suspended."""
    place = Place()
    order: list[str] = []
    first = await place.held()
    first.add_done_callback(lambda _: order.append("first"))

    async def coroutine(name: str) -> None:
        await place.gate.call(partial(order.append, name))

    def fiber(name: str) -> None:
        place.gate.enter()
        order.append(name)

    tasks = [asyncio.create_task(coroutine("second"))]
    await asyncio.sleep(0)
    done = place.slices.run(fiber, "third")
    tasks.append(asyncio.create_task(coroutine("fourth")))
    await asyncio.sleep(0)
    place.store.pauses = 0
    await asyncio.gather(first, *tasks)
    await until(lambda: len(order) == 4)

    assert (False, ["second", "third", "fourth"]) == (done, [name for name in order if name != "first"])
    assert not place.gate.is_held


async def test_who_cannot_wait_has_it_finished() -> None:
    """Outside of a fiber nobody can wait: the suspended command ends at once, in one piece, before `enter` returns."""
    place = Place()
    task = await place.held()
    place.gate.enter()

    assert 3 == place.machine.evaluate(SPECS[b"SCARD"], [b"s"], 0)
    assert MEMBERS == await task


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.timeout(20)
async def test_one_who_gives_up_waiting_lets_the_next_in(has_run: bool) -> None:
    """A coroutine that is cancelled at the gate keeps nobody waiting, also where its turn comes before it has run."""
    place = Place()
    first = await place.held()
    second = asyncio.create_task(place.gate.call(place.members))
    third = asyncio.create_task(place.gate.call(place.members))
    await asyncio.sleep(0)
    second.cancel()
    if has_run:
        await asyncio.sleep(0)
    place.store.pauses = 0

    assert [MEMBERS, MEMBERS] == [await first, await third]
    assert second.cancelled()
    assert not place.gate.is_held


async def test_a_closed_gate_ends_what_is_suspended() -> None:
    """The suspended command and those who wait for it are told so. The store, which may be broken, is not read."""
    place = Place()
    first = await place.held()
    second = asyncio.create_task(place.gate.call(place.members))
    await asyncio.sleep(0)
    scans: list[None] = []
    place.store.scanned = lambda: scans.append(None)
    place.gate.close()
    assert [] == scans

    assert [AbandonedError, AbandonedError] == [
        type(each) for each in await asyncio.gather(first, second, return_exceptions=True)
    ]
    assert not place.machine.is_held
    place.store.pauses = 0
    assert MEMBERS == place.members()


async def test_an_error_behind_a_pause_reaches_the_caller() -> None:
    """What a suspended piece of work raises is raised where its outcome is waited for."""
    place = Place()

    def fail() -> None:
        place.members()
        message = "behind it"
        raise LookupError(message)

    place.store.pauses = 3
    with pytest.raises(LookupError, match="behind it"):
        await place.gate.call(fail)

    assert 3 == place.slices.suspensions
    assert not place.gate.is_held


async def test_outside_of_a_machine_nothing_is_suspended() -> None:
    """What a fiber does beside a machine runs through: nobody there expects that others have their turn."""
    place = Place()
    paused: list[bool] = []
    done = place.slices.run(lambda: paused.append(place.slices.pause(sys._getframe())))

    assert (True, [False]) == (done, paused)


async def test_time_stands_still_while_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fiber may take counts only while it runs: a group that was suspended is not cut the sooner for it."""
    place = Place()
    now, times = [100.0], list[float]()
    monkeypatch.setattr("ingest.applying.slicing.slices.perf_counter", lambda: now[0])

    def work() -> None:
        began = place.slices.running_seconds()
        now[0] += 2.0  # it runs
        place.members()
        now[0] += 1.0
        times.append(place.slices.running_seconds() - began)

    place.store.pauses = sys.maxsize
    task = asyncio.create_task(place.gate.call(work))
    await until(lambda: place.gate.is_held)
    now[0] += 500.0  # others run
    place.store.pauses = 0
    await task

    assert [3.0] == times


def busy(place: Place, suspensions: int) -> None:
    """Keep the machine busy until it was suspended so often; give up when that does not come."""
    ends = perf_counter() + PATIENCE_SECONDS
    while place.slices.suspensions < suspensions and perf_counter() < ends:
        place.members()


async def test_a_signal_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer that runs out just before a fiber goes on does not leave it without one: it is suspended again."""
    resume = Gate.resume

    def late(gate: Gate) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)  # it has run out
        gate.slices._on_timer(signal.SIGALRM, None)
        resume(gate)

    monkeypatch.setattr(Gate, "resume", late)
    place = Place()
    with place.slices.timed():
        await place.slices.in_fiber(partial(busy, place, 3))

    assert 3 == place.slices.suspensions


async def test_a_signal_while_a_fiber_is_being_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer repeats: one that comes again in the middle suspends nothing a second time, which nobody would end."""
    place = Place()
    later, handles = place.slices.later, list[asyncio.Handle]()

    def later_with_signal(fiber: Any) -> asyncio.Handle:
        handles.append(handle := later(fiber))
        if len(handles) == 1:
            signal.raise_signal(signal.SIGALRM)
        return handle

    monkeypatch.setattr(place.slices, "later", later_with_signal)
    with place.slices.timed():
        async with asyncio.timeout(5):
            await place.slices.in_fiber(partial(busy, place, 3))

    assert (3, False) == (place.slices.suspensions, place.gate.is_held)


async def test_a_fiber_in_a_fiber() -> None:
    """One that has begun another, which was suspended, is suspended in its turn when it takes long."""
    inner, outer = Place(), Place()
    outer.slices = inner.slices
    outer.gate = Gate(inner.slices)
    outer.gate.machine = outer.machine
    order: list[str] = []

    def work() -> None:
        inner.slices.run(busy, inner, 1)
        order.append(f"the inner one was suspended {inner.slices.suspensions} times")
        busy(outer, 2)

    with inner.slices.timed():
        await inner.slices.in_fiber(work)

    assert ["the inner one was suspended 1 times"] == order
    assert 2 == inner.slices.suspensions


async def test_the_timer_is_off_when_nothing_runs() -> None:
    """It is armed by work alone, fires once after it, and then no signal comes until there is work again."""
    slices = Slices(0.2)
    with slices.timed():
        assert signal.getitimer(signal.ITIMER_REAL) == OFF
        slices.run(lambda: None)
        assert signal.getitimer(signal.ITIMER_REAL) != OFF
        await until(lambda: signal.getitimer(signal.ITIMER_REAL) == OFF)
        slices.run(lambda: None)
        assert signal.getitimer(signal.ITIMER_REAL) != OFF


async def test_the_signal_is_given_back() -> None:
    """Whoever had SIGALRM before has it again afterwards; without `timed` nothing touches it."""
    before = signal.getsignal(signal.SIGALRM)
    Slices().run(lambda: None)
    untouched = signal.getsignal(signal.SIGALRM)
    with Slices().timed():
        assert before != signal.getsignal(signal.SIGALRM)

    assert before == untouched
    assert before == signal.getsignal(signal.SIGALRM)


def test_a_fiber_that_is_not_kept_says_what_came_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """When enough fibers are idle another one ends with its work: whoever gave it learns that it is done, or failed."""
    monkeypatch.setattr("ingest.applying.slicing.slices._IDLE_MAX", 0)
    made = Slices()
    done: list[int] = []

    assert made.run(done.append, 1)
    with pytest.raises(ValueError, match="not in list"):
        made.run(done.remove, 7)
