"""Serves blocked clients in the order in which they came, by pops through the log.

A waiting client costs nothing in the log. When a key that somebody waits for has elements, a pop is appended as an
ordinary event (LPOP, ZPOPMIN, LMOVE …), for at most as many clients at once as there are elements.

Redis serves who waits before anybody's next command. So the pops for a write of this server stand in the log right
behind it: they are sent with it, when its outcome is not known yet, for as many clients as it may serve, those of lists
that BLMOVE fills in their turn included. For what others append, or what nobody could foresee, they are sent when it
was applied. A pop that finds nothing keeps its client's place. No pop is sent for a client that is known to be gone;
one that goes while its pop is under way loses the element, as in Redis when a connection breaks before the reply.

Who has lost the right to its command or to a key is refused when an element comes, and the element is for the next.
Whether one comes is known only behind the write, where a read looks for it instead of the pop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.apply.records import Modified
from engine.commands.registry import SPECS, Spec, keys_of
from engine.errors import WRONG_TYPE, CommandError, DueError
from engine.model import LIST, NONE, SET, TYPE_NAMES, ZSET
from engine.values.numbers import parse_int
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.fills import EITHER, UNKNOWN, Fill, StoredKey, fills_of
from resp.blocking.waiters import BlockingClient, NoLongerAllowedError, Place, Pop, Waiter, Wish
from resp.writes.entries import event_entry
from resp.writes.items import NOTHING_WRITTEN, Item
from resp.writes.stopping import about_keys

if TYPE_CHECKING:
    from ingest.applying.slices import Slices
    from resp.writes.write_pipeline import WritePipeline

UNBLOCKED: Final = CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK")
_LENGTH: Final = {LIST: SPECS[b"LLEN"], ZSET: SPECS[b"ZCARD"], SET: SPECS[b"SCARD"]}
_TYPE: Final = SPECS[b"TYPE"]
_TYPE_CODES: Final = {name.encode(): type_code for type_code, name in TYPE_NAMES.items()}


class Partitions(Protocol):
    """The partitions of the worker.

    Attributes:
        partitions: of the log, how many.
        pipelines: of those that this worker owns.
        slices: in which commands run.
        wall_ms: the wall clock, as of late.
    """

    partitions: int
    pipelines: dict[int, WritePipeline]
    slices: Slices
    wall_ms: int

    def pipeline_of(self, keys: list[bytes]) -> WritePipeline:
        """The partition of these keys."""
        ...

    def witness(self) -> None:
        """Let the machines say which keys they touch, while anybody needs that."""
        ...


class Blocked:
    """All clients of a server that wait for an element.

    Attributes:
        waiters: in the order in which they came.
    """

    def __init__(self, server: Partitions) -> None:
        self.waiters: dict[Waiter, None] = {}
        self._server = server
        self._by_place: dict[Place, dict[Waiter, None]] = {}
        self._popping: dict[Place, int] = {}
        self._filled: deque[tuple[Place, int]] = deque()
        self._left: dict[Place, int] = {}
        self._serving = False

    @property
    def any(self) -> bool:
        """Whether anybody waits."""
        return bool(self.waiters)

    def wait(
        self, session: BlockingClient, wish: Wish, timeout_s: float, denial: Callable[[], CommandError | None]
    ) -> Coroutine[Any, Any, Reply]:
        """Begin to wait, and return what finds the reply.

        Args:
            session: who waits.
            wish: for what.
            timeout_s: 0 for ever.
            denial: says why its user may not run the command, and notes that.

        Raises:
            CommandError: a key holds another type, or there are too many; in the coroutine: the pop failed.
        """
        pipeline = self._server.pipeline_of(wish.keys)
        refusal = pipeline.refusal(write=True)
        if refusal is not None:
            raise about_keys(refusal, self._server.partitions)
        name, *args = wish.event
        entry = event_entry(pipeline.partition, name, args, keys_of(name, args), db=session.db)
        done = asyncio.get_running_loop().create_future()
        waiter = Waiter(session, pipeline, session.db, wish, entry, timeout_s, denial, done)
        self._check_types(waiter)
        waiter.places = [(pipeline.partition, waiter.db, key) for key in dict.fromkeys(wish.keys)]
        self._join(waiter)
        for place in waiter.places:
            self._serve(place)
        return self._reply(waiter)

    async def _reply(self, waiter: Waiter) -> Reply:
        session, began = waiter.session, perf_counter()
        try:
            if session.is_finished:  # it has left between its command and now
                session.kill()
                return NIL_ARRAY
            async with asyncio.timeout(waiter.timeout_s or None):
                reply = await asyncio.shield(waiter.done)
        except TimeoutError:
            reply = await self._time_out(waiter)
        finally:
            self._leave(waiter)
            session.waited_seconds += perf_counter() - began
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def unblock(self, session: BlockingClient, *, error: bool) -> bool:
        """CLIENT UNBLOCK: as if its time were over, or with an error. False: it does not wait."""
        waiter = session.blocked
        if waiter is None or waiter.popping is not None or waiter.done.done():
            return False
        waiter.done.set_result(UNBLOCKED if error else NIL_ARRAY)
        return True

    def end(self) -> None:
        """End the worker: no more pops, and waiting clients get an error once no pop is under way for them."""
        for waiter in self.waiters:
            refusal = waiter.pipeline.refusal(write=True)
            if refusal is not None and waiter.popping is None and not waiter.done.done():
                waiter.done.set_result(refusal)

    def forget(self, session: BlockingClient) -> None:
        """The client is gone: nothing is popped for it any more."""
        if session.blocked is not None:
            self._leave(session.blocked)

    def on_modified(self, pipeline: WritePipeline, modified: Iterable[Modified]) -> None:
        """Keys were modified: who waits for them may be served."""
        for _, db, _, _, _, key, _, type_after, _ in modified:
            place = pipeline.partition, db, key
            if type_after != NONE and place in self._by_place:
                self._serve(place)

    def on_submitted(self, pipeline: WritePipeline, item: Item) -> None:
        """A write is on its way: send the pops for who waits for what it may fill right behind it."""
        if pipeline.is_held:  # nobody can ask the state: they are served when the write is applied
            return
        with self._server.slices.whole():
            alone = (
                pipeline.answers.pending_events == 1 and item.name != b"EXEC"
            )  # then the state says what it will meet
            is_swap = item.name == b"SWAPDB"
            for fill in self._swapped(pipeline, item.args) if is_swap else fills_of(item.name, item.args, item.db):
                place = pipeline.partition, fill.db, fill.key
                if place in self._by_place:
                    type_code, elements = self._counted(pipeline, fill) if alone else (fill.type, fill.elements)
                    self._note(place, type_code, elements)
            if self._filled and not self._serving:  # else `_send` has come by here, with a move
                self._serve_noted()

    def look_again(self) -> None:
        """Databases were exchanged, or a partition goes on: any key may have elements now."""
        for place in list(self._by_place):
            self._serve(place)

    def popped(self, pop: Pop, reply: Reply) -> None:
        """The outcome of a pop, or why there is none."""
        waiter = pop.waiter
        waiter.popping = None
        self._popping[pop.place] -= pop.wanted
        if not self._popping[pop.place]:
            del self._popping[pop.place]
        shaped = self._shaped(pop, reply) if pop.entry is not None else self._seen(waiter, reply)
        if shaped is not None and not waiter.done.done():
            waiter.done.set_result(shaped)
        if waiter.pipeline.closing:
            self.end()
        if shaped is None or isinstance(shaped, CommandError):  # the element, if there is one, is for the next
            for place in waiter.places:
                self._serve(place)

    # ------------------------------------------------------------------ who waits

    def _check_types(self, waiter: Waiter) -> None:
        """Redis looks at the keys up to the first that has elements; one of another type is an error."""
        for key in waiter.wish.keys:
            type_code = self._type(waiter.pipeline, waiter.db, key)
            if type_code == waiter.wish.type:
                return
            if type_code != NONE:
                raise CommandError(WRONG_TYPE)

    def _join(self, waiter: Waiter) -> None:
        waiter.session.blocked = waiter
        self.waiters[waiter] = None
        for place in waiter.places:
            self._by_place.setdefault(place, {})[waiter] = None
        self._watch(waiter.pipeline)

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
        self._watch(waiter.pipeline)

    def _watch(self, pipeline: WritePipeline) -> None:
        """Look at what is sent and applied while somebody waits."""
        pipeline.on_submitted = self.on_submitted if self.any else None
        self._server.witness()

    async def _time_out(self, waiter: Waiter) -> Reply:
        """Its time is over; a pop that is under way is waited for, as its element must not be lost.

        Where there are elements that others are about to take, the log decides who was first: nobody is answered nil
        whose key was never empty.
        """
        self._leave(waiter)
        for place in waiter.places:
            await waiter.pipeline.free()
            if waiter.is_free and self._length(waiter.pipeline, waiter.db, place[2], waiter.wish.type):
                self._send(waiter, place, early=False)
            if waiter.popping is not None:
                await asyncio.wait((waiter.popping.done,))
        return waiter.done.result() if waiter.done.done() else NIL_ARRAY

    # ------------------------------------------------------------------ who is served

    def _serve(self, place: Place) -> None:
        """Send pops for as many of the clients that wait at `place` as it has elements now.

        Where a command is suspended in the partition, as soon as that is done.
        """
        pipeline, slices = self._server.pipelines[place[0]], self._server.slices
        if pipeline.is_held:
            if slices.fiber is None:
                slices.run(self._serve, place)
                return
            pipeline.owned.worker.gate.enter()
        with slices.whole():  # what is counted here must not change on the way
            waiters = self._by_place.get(place, {})
            first = next((waiter for waiter in waiters if waiter.is_free), None)
            if first is not None:
                length = self._length(first.pipeline, place[1], place[2], first.wish.type)
                self._note(place, first.wish.type, length - self._popping.get(place, 0))
                self._serve_noted(early=False)

    def _note(self, place: Place, type_code: int, elements: int) -> None:
        """So many elements may be at `place`."""
        self._filled.append((place, type_code))
        self._left[place] = self._left.get(place, 0) + elements

    def _serve_noted(self, *, early: bool = True) -> None:
        """Send pops for those who wait at the places noted; then for those at what these pops may fill, and so on.

        As in Redis all clients of one key are served before those of the next that has become ready.
        """
        self._serving = True
        try:
            while self._filled:
                place, type_code = self._filled.popleft()
                for waiter in self._by_place.get(place, {}):
                    if self._left[place] <= 0:
                        break
                    if waiter.is_free and type_code in {EITHER, waiter.wish.type}:
                        if not (waiter.is_denied or self._may_fail(waiter, place)):
                            self._take(waiter)
                        self._send(waiter, place, early=early)
                early = True
        finally:
            self._serving = False
            self._filled.clear()
            self._left.clear()

    def _take(self, waiter: Waiter) -> None:
        """Count off what its pop takes: from the first of its keys that has elements."""
        for place in waiter.places:
            if (left := self._left.get(place, 0)) > 0:
                self._left[place] = left - waiter.wish.wanted
                return

    def _may_fail(self, waiter: Waiter, place: Place) -> bool:
        """Whether its pop takes nothing though there are elements at `place`: another key of it holds another type."""
        wish = waiter.wish
        others = [key for key in (*wish.keys, wish.destination) if key is not None and key != place[2]]
        return any(self._type(waiter.pipeline, waiter.db, key) not in {NONE, wish.type} for key in others)

    def _send(self, waiter: Waiter, place: Place, *, early: bool) -> None:
        """Send its pop; a client that may not pop any more is refused, as soon as it is known that it could."""
        if waiter.pipeline.closing:
            return
        is_denied = waiter.is_denied
        if is_denied and not early:
            waiter.done.set_result(self._denial(waiter))
            return
        pop = Pop(waiter, place, self.popped, early=early, length=_LENGTH[waiter.wish.type] if is_denied else None)
        self._popping[place] = self._popping.get(place, 0) + pop.wanted
        waiter.popping = pop
        waiter.pipeline.submit(pop)

    def _denial(self, waiter: Waiter) -> CommandError | None:
        """Why it may not pop, counted and noted; None: it may again."""
        refusal = waiter.denial()
        return None if refusal is None else NoLongerAllowedError(refusal.message)

    def _seen(self, waiter: Waiter, length: Reply) -> Reply:
        """What a client that may not pop is answered where there are so many elements; None when it goes on waiting."""
        return self._denial(waiter) if isinstance(length, int) and length else None

    def _shaped(self, pop: Pop, reply: Reply) -> Reply:
        """What the client is answered; None when it goes on waiting."""
        waiter = pop.waiter
        if pop.offset >= 0:
            waiter.session.last_position = waiter.pipeline.partition, pop.offset
        if not isinstance(reply, CommandError):
            shaped = waiter.wish.shape(reply)
            return None if shaped is NIL_ARRAY else shaped
        if pop.early and reply.message.startswith(NOTHING_WRITTEN):
            return None  # nor was what it was to pop: no affair of this client
        if reply.message == WRONG_TYPE and not self._may_fail(waiter, pop.place):
            return None  # the key was replaced meanwhile: no fault of this client
        return reply

    # ------------------------------------------------------------------ what the state says

    def _swapped(self, pipeline: WritePipeline, args: list[bytes]) -> Iterator[Fill]:
        """What a SWAPDB may fill."""
        first, second = (parse_int(arg) for arg in args)
        others = {first: second, second: first}
        for partition, db, key in list(self._by_place):
            other = others.get(db)
            if partition == pipeline.partition and other is not None:
                yield Fill(db, key, EITHER, UNKNOWN, ((other, key),))

    def _counted(self, pipeline: WritePipeline, fill: Fill) -> tuple[int, int]:
        """The type of what a write may bring, and how much of it there is at most, by its sources and what is there."""
        if not fill.sources:
            held = NONE if fill.type == EITHER else self._type(pipeline, fill.db, fill.key)
            return fill.type, fill.elements if held in {NONE, fill.type} else 0
        lengths = {source: self._any_length(pipeline, source) for source in fill.sources}
        type_code = fill.type
        if type_code == EITHER:
            ((db, key),) = fill.sources
            type_code = self._type(pipeline, db, key)
        return type_code, min(fill.elements, sum(lengths.values()))

    def _any_length(self, pipeline: WritePipeline, source: StoredKey) -> int:
        type_code = self._type(pipeline, *source)
        return self._length(pipeline, *source, type_code) if type_code in _LENGTH else 0

    def _type(self, pipeline: WritePipeline, db: int, key: bytes) -> int:
        name: Any = self._read(pipeline, _TYPE, key, db)
        return _TYPE_CODES.get(name, NONE)

    def _length(self, pipeline: WritePipeline, db: int, key: bytes, type_code: int) -> int:
        try:
            length: int = self._read(pipeline, _LENGTH[type_code], key, db)
        except CommandError:  # it holds another type now: nothing for those who wait
            return 0
        return length

    def _read(self, pipeline: WritePipeline, spec: Spec, key: bytes, db: int) -> Reply:
        if not pipeline.owned.worker.is_open:
            return 0
        try:
            return pipeline.read(spec, [key], db, self._server.wall_ms)
        except DueError:
            return pipeline.read(spec, [key], db, at_ms=self._server.wall_ms)
