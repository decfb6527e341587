"""Sends pops through the log for blocked clients, in the order in which they came.

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

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from engine.apply.records import Modified
from engine.commands.fills import EITHER, UNKNOWN, Fill
from engine.errors import WRONG_TYPE, CommandError
from engine.model import NONE
from engine.values.numbers import parse_int
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.elements import LENGTH, Elements, Partitions
from resp.blocking.fills import fills_of
from resp.blocking.places import Places
from resp.blocking.waiters import Place, Pop, Waiter
from resp.writes.items import NOTHING_WRITTEN, Item

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline


class Serving(Places):
    """Finds out which waiting clients can be served, and pops for them."""

    def __init__(self, partitions: Partitions, elements: Elements) -> None:
        super().__init__(partitions, elements)
        self._popping: dict[Place, int] = {}
        self._filled: deque[tuple[Place, int]] = deque()
        self._left: dict[Place, int] = {}
        self._serving = False

    def on_modified(self, pipeline: WritePipeline, modified: Iterable[Modified]) -> None:
        """Note that keys were modified: clients that wait for them may be served."""
        for _, db, _, _, _, key, _, type_after, _ in modified:
            place = pipeline.partition, db, key
            if type_after != NONE and place in self._by_place:
                self.serve(place)

    def on_submitted(self, pipeline: WritePipeline, item: Item) -> None:
        """Note that a write was sent: send pops right behind it for clients that wait for the keys it may fill."""
        if pipeline.is_held:  # nobody can ask the state: they are served when the write is applied
            return
        with self._partitions.slices.whole():
            # Alone it meets what the state says now.
            alone = pipeline.answers.pending_events == 1 and item.name != b"EXEC"
            is_swap = item.name == b"SWAPDB"
            for fill in self._swapped(pipeline, item.args) if is_swap else fills_of(item.name, item.args, item.db):
                place = pipeline.partition, fill.db, fill.key
                if place in self._by_place:
                    counted = self._elements.counted(pipeline, fill) if alone else (fill.type, fill.elements)
                    self._note(place, *counted)
            if self._filled and not self._serving:  # else `send` has come by here, with a move
                self._serve_noted()

    def popped(self, pop: Pop, reply: Reply) -> None:
        """The outcome of a pop, or why there is none."""
        waiter = pop.waiter
        waiter.popping = None
        self._popping[pop.place] -= pop.wanted
        if not self._popping[pop.place]:
            del self._popping[pop.place]
        shaped = waiter.seen(reply) if pop.is_look else self._shaped(pop, reply)
        waiter.answer(shaped)
        if waiter.pipeline.closing:
            waiter.end()
        if shaped is None or isinstance(shaped, CommandError):  # the element, if there is one, is for the next
            for place in waiter.places:
                self.serve(place)

    # ------------------------------------------------------------------ whom and with what

    def _serve_all(self, place: Place) -> None:
        """Send pops for as many of the clients that wait at `place` as it has elements now.

        Some of them may wait for another type than it holds.
        """
        pipeline = self._partitions.pipelines[place[0]]
        type_code = self._elements.type_of(pipeline, place[1], place[2])
        if any(waiter.is_free and waiter.wish.type == type_code for waiter in self._by_place.get(place, {})):
            length = self._elements.length(pipeline, place[1], place[2], type_code)
            self._note(place, type_code, length - self._popping.get(place, 0))
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
                        self.send(waiter, place, early=early)
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
        return any(self._holds_another_type(waiter, (*place[:2], key)) for key in others)

    def begin(self, waiter: Waiter) -> None:
        """Serve a client that was added just now, if there are elements."""
        for place in waiter.places:
            self.serve(place)

    def serve_late(self, waiter: Waiter, place: Place) -> None:
        """Serve one whose time is over, and who was removed, if there are elements at `place`."""
        if waiter.is_free and self._elements.length(waiter.pipeline, waiter.db, place[2], waiter.wish.type):
            self.send(waiter, place, early=False)

    def check(self, waiter: Waiter) -> None:
        """Whether a client may wait. Redis looks at the keys up to the first that has elements.

        Raises:
            CommandError: one of them is of another type.
        """
        for key in waiter.wish.keys:
            type_code = self._elements.type_of(waiter.pipeline, waiter.db, key)
            if type_code == waiter.wish.type:
                return
            if type_code != NONE:
                raise CommandError(WRONG_TYPE)

    def send(self, waiter: Waiter, place: Place, *, early: bool) -> None:
        """Send its pop; a client that may not pop any more is refused, as soon as it is known that it could."""
        if waiter.pipeline.closing:
            return
        is_denied = waiter.is_denied
        if is_denied and not early:
            waiter.done.set_result(waiter.refusal())
            return
        pop = Pop(waiter, place, self.popped, early=early, length=LENGTH[waiter.wish.type] if is_denied else None)
        self._popping[place] = self._popping.get(place, 0) + pop.wanted
        waiter.popping = pop
        waiter.pipeline.submit(pop)

    def _shaped(self, pop: Pop, reply: Reply) -> Reply:
        """The reply to the client; None if it goes on waiting."""
        waiter = pop.waiter
        if pop.offset >= 0:
            waiter.session.last_position = waiter.pipeline.partition, pop.offset
        if not isinstance(reply, CommandError):
            shaped = waiter.wish.shape(reply)
            return None if shaped is NIL_ARRAY else shaped
        if pop.early and reply.message.startswith(NOTHING_WRITTEN):
            return None  # nor was what it was to pop: no affair of this client
        is_its_own = self._may_fail(waiter, pop.place) and not self._holds_another_type(waiter, pop.place)
        if reply.message == WRONG_TYPE and not is_its_own:
            return None  # the key was replaced meanwhile, or its write was refused: no fault of this client
        return reply

    def _holds_another_type(self, waiter: Waiter, place: Place) -> bool:
        """Whether there is at `place` something else than it waits for."""
        return self._elements.type_of(waiter.pipeline, waiter.db, place[2]) not in {NONE, waiter.wish.type}

    def _swapped(self, pipeline: WritePipeline, args: list[bytes]) -> Iterator[Fill]:
        """What a SWAPDB may fill."""
        first, second = (parse_int(arg) for arg in args)
        others = {first: second, second: first}
        for partition, db, key in list(self._by_place):
            other = others.get(db)
            if partition == pipeline.partition and other is not None:
                yield Fill(db, key, EITHER, UNKNOWN, ((other, key),))
