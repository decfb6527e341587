"""Clients that wait for an element: served in the order in which they came, by a pop that goes through the log.

A waiting client costs nothing in the log. When a key that somebody waits for has elements, a pop is appended as an
ordinary event (LPOP, ZPOPMIN, LMOVE …), for at most as many clients at once as there are elements. Others may be
quicker: a pop that finds nothing keeps its client's place. No pop is sent for a client that is known to be gone; one
that goes while its pop is under way loses the element, as in Redis when a connection breaks before the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

import structlog

from engine.applied import Touched
from engine.errors import WRONG_TYPE, CommandError, DueError
from engine.layouts.base import LIST, NONE, TYPE_NAMES, ZSET
from engine.registry import SPECS, Spec
from engine.replies import NIL_ARRAY, Reply
from ingest.resp.applying import BROKEN

if TYPE_CHECKING:
    from ingest.resp.lane import Lane
    from ingest.resp.server import Server
    from ingest.resp.session import Session

Pop = Callable[[bytes], list[bytes]]
"""Key -> the event that pops from it: name and arguments."""

Shape = Callable[[bytes, Reply], Reply]
"""Key and the event's outcome -> what the client is answered; None when nothing was popped."""

UNBLOCKED: Final = CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK")
_LENGTH: Final = {LIST: SPECS[b"LLEN"], ZSET: SPECS[b"ZCARD"]}
_TYPE: Final = SPECS[b"TYPE"]

_Place = tuple[int, int, bytes]
"""(partition, logical database, key)."""

logger = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Waiter:
    """One client that waits.

    Attributes:
        session, lane, db: whose, and where.
        type: LIST or ZSET: what the keys must hold.
        keys: in order of preference.
        pop, shape: how to pop, and what to answer.
        done: the reply, once there is one.
        popping: the pop that is under way for it.
        places: where it waits, one for each key.
        expired: its time is over.
    """

    session: Session
    lane: Lane
    db: int
    type: int
    keys: list[bytes]
    pop: Pop
    shape: Shape
    done: asyncio.Future[Reply]
    popping: asyncio.Task[None] | None = None
    places: list[_Place] = field(default_factory=list)
    expired: bool = False


class Blocked:
    """All clients of a server that wait for an element.

    Attributes:
        waiters: in the order in which they came.
    """

    def __init__(self, server: Server) -> None:
        self.waiters: dict[Waiter, None] = {}
        self._server = server
        self._by_place: dict[_Place, dict[Waiter, None]] = {}
        self._popping: dict[_Place, int] = {}

    @property
    def any(self) -> bool:
        """Whether anybody waits."""
        return bool(self.waiters)

    async def wait(
        self, session: Session, keys: list[bytes], type_code: int, pop: Pop, shape: Shape, timeout_s: float
    ) -> Reply:
        """The reply of a blocking pop.

        Args:
            session: who waits.
            keys: the first that has elements is popped from.
            type_code: LIST or ZSET.
            pop: the event that pops from a key.
            shape: what the client is answered for its outcome.
            timeout_s: 0 for ever.

        Raises:
            CommandError: a key holds another type, or the pop failed.
        """
        lane = self._server.lane_of(keys)
        refusal = lane.refusal(write=True)
        if refusal is not None:
            raise refusal
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        waiter = Waiter(session, lane, session.db, type_code, keys, pop, shape, done)
        self._check_types(waiter)
        waiter.places = [(lane.partition, waiter.db, key) for key in dict.fromkeys(keys)]
        self._join(waiter)
        began = perf_counter()
        try:
            if session.is_finished:  # it has left between its command and now
                session.kill()
                return NIL_ARRAY
            for place in waiter.places:
                self._serve(place)
            async with asyncio.timeout(timeout_s or None):
                reply = await asyncio.shield(done)
        except TimeoutError:
            reply = await self._time_out(waiter)
        finally:
            self._leave(waiter)
            session.waited_seconds += perf_counter() - began
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def unblock(self, session: Session, *, error: bool) -> bool:
        """CLIENT UNBLOCK: as if its time were over, or with an error. False: it does not wait."""
        waiter = session.blocked
        if waiter is None or waiter.popping is not None or waiter.done.done():
            return False
        waiter.done.set_result(UNBLOCKED if error else NIL_ARRAY)
        return True

    def end(self) -> None:
        """The worker ends: nothing more is popped, and whoever waits is told so, once no pop is under way for it."""
        for waiter in self.waiters:
            refusal = waiter.lane.refusal(write=True)
            if refusal is not None and waiter.popping is None and not waiter.done.done():
                waiter.done.set_result(refusal)

    def forget(self, session: Session) -> None:
        """The client is gone: nothing is popped for it any more."""
        if session.blocked is not None:
            self._leave(session.blocked)

    def on_touched(self, lane: Lane, touched: Iterable[Touched]) -> None:
        """Keys were modified: who waits for them may be served."""
        for _, db, _, _, _, key, _, type_after, _ in touched:
            place = lane.partition, db, key
            if type_after != NONE and place in self._by_place:
                self._serve(place)

    def look_again(self) -> None:
        """Databases were exchanged, or a partition goes on: any key may have elements now."""
        for place in list(self._by_place):
            self._serve(place)

    # ------------------------------------------------------------------ inside

    def _check_types(self, waiter: Waiter) -> None:
        """Redis looks at the keys up to the first that has elements; one of another type is an error."""
        for key in waiter.keys:
            kind = self._read(waiter.lane, _TYPE, key, waiter.db)
            if kind == TYPE_NAMES[waiter.type].encode():
                return
            if kind != b"none":
                raise CommandError(WRONG_TYPE)

    def _join(self, waiter: Waiter) -> None:
        waiter.session.blocked = waiter
        self.waiters[waiter] = None
        for place in waiter.places:
            self._by_place.setdefault(place, {})[waiter] = None
        self._server.witness()

    def _leave(self, waiter: Waiter) -> None:
        if waiter not in self.waiters:
            return
        del self.waiters[waiter]
        waiter.session.blocked = None
        for place in waiter.places:
            at_place = self._by_place[place]
            del at_place[waiter]
            if not at_place:
                del self._by_place[place]
        self._server.witness()

    async def _time_out(self, waiter: Waiter) -> Reply:
        """Its time is over; a pop that is under way is waited for, as its element must not be lost.

        Where there are elements that others are about to take, the log decides who was first: nobody is answered nil
        whose key was never empty.
        """
        waiter.expired = True
        self._leave(waiter)
        for place in waiter.places:
            if waiter.popping is None and not waiter.done.done() and self._length(waiter, place[2]):
                self._send(waiter, place)
            if waiter.popping is not None:
                await asyncio.wait((waiter.popping,))
        return waiter.done.result() if waiter.done.done() else NIL_ARRAY

    def _serve(self, place: _Place) -> None:
        """Send pops for as many of the clients that wait at `place` as it has elements."""
        waiters = self._by_place.get(place, {})
        free = [waiter for waiter in waiters if waiter.popping is None and not waiter.done.done()]
        if not free:
            return
        length = self._length(free[0], place[2])
        for waiter in free[: max(0, length - self._popping.get(place, 0))]:
            self._send(waiter, place)

    def _send(self, waiter: Waiter, place: _Place) -> None:
        if waiter.lane.closing:
            return
        self._popping[place] = self._popping.get(place, 0) + 1
        waiter.popping = asyncio.get_running_loop().create_task(self._pop(waiter, place))

    async def _pop(self, waiter: Waiter, place: _Place) -> None:
        try:
            shaped = await self._popped(waiter, place[2])
        except Exception:  # a bug of ours: the client has to be answered all the same
            logger.exception("pop_failed", client=waiter.session.id)
            shaped = BROKEN
        finally:
            waiter.popping = None
            self._popping[place] -= 1
            if not self._popping[place]:
                del self._popping[place]
        if shaped is not None and not waiter.done.done():
            waiter.done.set_result(shaped)
        if waiter.lane.closing:
            self.end()
        if shaped is None or isinstance(shaped, CommandError):  # the element, if there is one, is for the next
            for other in waiter.places:
                self._serve(other)

    async def _popped(self, waiter: Waiter, key: bytes) -> Reply:
        """What the client is answered; None when there was nothing to pop, or nobody to pop for any more."""
        if waiter.session.closing or (waiter not in self.waiters and not waiter.expired):
            return None
        if waiter.lane.closing:  # since this pop was thought of
            return waiter.lane.refusal(write=True)
        name, *args = waiter.pop(key)
        item = waiter.lane.submit_awaited(name, args, waiter.db)
        reply = await item.done
        if item.offset >= 0:
            waiter.session.last_position = waiter.lane.partition, item.offset
        if not isinstance(reply, CommandError):
            return waiter.shape(key, reply)
        if reply.message == WRONG_TYPE and not self._has_type(waiter, key):
            return None  # the key was replaced meanwhile: no fault of this client
        return reply

    def _has_type(self, waiter: Waiter, key: bytes) -> bool:
        return bool(self._read(waiter.lane, _TYPE, key, waiter.db) == TYPE_NAMES[waiter.type].encode())

    def _length(self, waiter: Waiter, key: bytes) -> int:
        try:
            length: int = self._read(waiter.lane, _LENGTH[waiter.type], key, waiter.db)
        except CommandError:  # it holds another type now: nothing for those who wait
            return 0
        return length

    def _read(self, lane: Lane, spec: Spec, key: bytes, db: int) -> Reply:
        if not lane.seat.worker.is_open:
            return 0
        try:
            return lane.read(spec, [key], db, self._server.wall_ms)
        except DueError:
            return lane.seat.evaluate(spec, [key], db, at_ms=self._server.wall_ms)
