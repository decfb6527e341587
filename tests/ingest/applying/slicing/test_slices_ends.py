"""Suspended work that is to end, ends: whatever swallows its end, and whichever thread is given the timer's signal."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from types import FrameType

import pytest
from greenlet import GreenletExit

from ingest.applying.slicing.fiber import AbandonedError
from ingest.applying.slicing.finalizing import Finalizing
from ingest.applying.slicing.slices import SLICE_SECONDS
from tests.ingest.applying.slicing.test_slices import MEMBERS, Place, busy
from tests.resp.harness import until


def native_thread() -> None:
    """Start a thread that the interpreter does not know, as RocksDB has some: it waits for one signal, and ends."""
    libc = ctypes.PyDLL(None)
    assert libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None) == 0


def take_alarms(how: int) -> None:
    """Block SIGALRM in this thread, or unblock it, and look for no signal, as `signal.pthread_sigmask` would."""
    libc, alarm = ctypes.PyDLL(None), (ctypes.c_ulong * 16)()
    libc.sigaddset(alarm, signal.SIGALRM)
    assert libc.pthread_sigmask(how, alarm, None) == 0


async def test_a_signal_that_another_thread_is_given() -> None:
    """A slice ends all the same, soon: such a thread runs the C part of the handler, and the interpreter does not look.

    The kernel does so while the main thread has another signal to take; here it cannot take this one.
    """
    place = Place()
    native_thread()

    def work() -> None:
        take_alarms(signal.SIG_BLOCK)
        ends = perf_counter() + 2 * SLICE_SECONDS
        while perf_counter() < ends:
            pass
        take_alarms(signal.SIG_UNBLOCK)
        busy(place, 1)

    with place.slices.timed():
        await place.slices.in_fiber(work)

    assert 1 == place.slices.suspensions


async def test_a_collection_is_not_suspended() -> None:
    """A slice that ends inside of a garbage collection goes on: what would end the work there would be swallowed."""
    place = Place()
    before: list[int] = []
    after: list[int] = []

    class Finalized:
        """Takes longer than a slice to go."""

        def __del__(self) -> None:
            before.append(place.slices.suspensions)
            ends = perf_counter() + 5 * SLICE_SECONDS
            while perf_counter() < ends:
                pass
            after.append(place.slices.suspensions)

    def collect() -> None:
        cycle: list[object] = [Finalized()]
        cycle.append(cycle)
        del cycle
        gc.collect()

    place.store.scanned = collect
    with place.slices.timed():
        await place.slices.in_fiber(partial(busy, place, 2))

    assert before == after
    assert len(before) > 0


def test_what_notes_a_collection_is_part_of_it() -> None:
    """A slice that ends in the collector's own callback, before that has noted anything, goes on as well."""
    finalizing = Finalizing()
    inside: list[bool] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Finalizing.note_start.__code__:
            inside.append(finalizing.has(frame))

    with finalizing.watched():
        before = finalizing.has(sys._getframe())
        sys.setprofile(look)
        gc.collect(0)
        sys.setprofile(None)
        after = finalizing.has(sys._getframe())

    assert {True} == set(inside)
    assert not before
    assert not after


class Read:
    """What has code to run when nobody reads it any more, be it a generator or an object."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end

    def __del__(self) -> None:
        self._at_end()


def generated(at_end: Callable[[], None]) -> Iterator[int]:
    """Numbers; at their end, or when nobody reads on, `at_end` is called."""
    try:
        yield from range(10)
    finally:
        at_end()


@pytest.mark.parametrize(
    "made", [Read, lambda at_end: next(generated(at_end)), lambda at_end: next(iter(map(str, generated(at_end))))]
)
async def test_what_a_finalizer_does_is_not_suspended(made: Callable[[Callable[[], None]], object]) -> None:
    """Neither in `__del__` nor in a generator that nobody reads to its end: what is raised there is swallowed.

    So what ended the suspended work would be lost, and the work would go on to its end, with nobody else served.
    """
    place = Place()
    paused: list[bool] = []

    def drop() -> None:
        made(lambda: paused.append(place.slices.pause(sys._getframe())))

    place.store.scanned = drop
    assert MEMBERS == await place.gate.call(place.members)
    assert [False] == paused


async def test_work_that_swallows_its_end_is_ended_once_more() -> None:
    """Whatever catches the GreenletExit that ends suspended work: it comes again, and the caller is told."""
    place = Place()
    ends: list[float] = []

    def stubborn() -> None:
        while len(ends) < 3:
            try:
                busy(place, sys.maxsize)
            except GreenletExit:
                ends.append(perf_counter())
        busy(place, sys.maxsize)

    with place.slices.timed():
        task = asyncio.create_task(place.gate.call(partial(place.gate.hold, stubborn)))
        await until(lambda: place.gate.is_held)
        place.gate.close()

    with pytest.raises(AbandonedError):
        await task
    assert 3 == len(ends)


async def test_what_must_not_be_suspended_does_not_end_the_slices() -> None:
    """Behind work that is done in one piece, in the middle of a fiber's, that is suspended as before."""
    place = Place()

    def work() -> None:
        ends = perf_counter() + 5 * SLICE_SECONDS
        with place.slices.whole():
            while perf_counter() < ends:
                pass
        busy(place, 2)

    with place.slices.timed():
        await place.slices.in_fiber(work)

    assert 2 == place.slices.suspensions


async def test_who_is_cancelled_with_its_work_done_ends_nobody_else() -> None:
    """A call that is cancelled in the very turn in which it is done does not end the next one, which is suspended."""
    place = Place()
    found: list[list[bytes]] = []
    first = await place.held()

    def following() -> None:
        place.gate.enter()
        first.cancel()
        found.append(place.members())

    def hold_the_next() -> None:
        place.store.pauses = sys.maxsize

    place.slices.run(following)
    place.store.scanned, place.store.pauses = hold_the_next, 0
    with pytest.raises(asyncio.CancelledError):
        await first
    assert place.gate.is_held
    place.store.pauses = 0
    await until(lambda: len(found) > 0)

    assert [MEMBERS] == found


async def test_a_rollback_of_one_who_is_cancelled_is_done() -> None:
    """It waits for what is suspended and does not hold the loop; who is cancelled meanwhile has not asked in vain."""
    place = Place()
    place.machine.apply([(1, 2, b"SADD", [b"s", b"d"], 0, None, None)], 1)
    read = await place.held()
    rollback = asyncio.create_task(place.gate.rollback())
    await asyncio.sleep(0)
    assert not rollback.done()
    rollback.cancel()
    await asyncio.sleep(0)
    place.store.pauses = 0

    assert [*MEMBERS, b"d"] == await read
    await until(lambda: not place.gate.is_held)
    assert (1, MEMBERS) == (place.machine.next_offset, place.members())
