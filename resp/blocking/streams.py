"""Runs XREAD and XREADGROUP again for clients that wait for an entry, in the order in which they came.

As in Redis, the command runs anew whenever one of its keys may have an entry for it; one that finds nothing keeps its
client's place. XREAD reads. XREADGROUP is an event: at most one at once for each group of a stream, for whoever has
waited longest, and none where the state says that it would find nothing. A client that waits in a group is answered
with an error when the group is gone, or its key.

What waits for a write of this server runs right behind it, and is sent with it: the read in the same turn, the event in
the same append. For what others append it is sent when that was applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.apply.records import Modified
from engine.commands.fills import EITHER
from engine.commands.registry import SPECS
from engine.commands.streams.group_reading import is_ready
from engine.errors import WRONG_TYPE, CommandError
from engine.model import NONE, STREAM
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.elements import LENGTH, Elements, Partitions
from resp.blocking.fills import fills_of
from resp.blocking.places import Places
from resp.blocking.waiters import Place, Pop, Waiter
from resp.writes.items import NOTHING_WRITTEN, Item

if TYPE_CHECKING:
    from resp.writes.write_pipeline import WritePipeline

_IS_READY: Final = replace(SPECS[b"XREADGROUP"], handler=is_ready, write=False)
_GROUP_GOES: Final = b"XGROUP|DESTROY"


class StreamServing(Places):
    """Finds out which clients may get an entry, and runs their commands."""

    def __init__(self, partitions: Partitions, elements: Elements) -> None:
        super().__init__(partitions, elements)
        self._taking: dict[tuple[Place, bytes], int] = {}  # by key and group: commands that are under way
        self._passed_over: set[Place] = set()

    def check(self, waiter: Waiter) -> None:
        """Whether a client may wait.

        Raises:
            CommandError: its group, or a key of it, is not there, or a key is of another type.
        """
        if waiter.wish.group is not None:
            self._is_ready(waiter)

    def begin(self, waiter: Waiter) -> None:
        """Serve a client that was added just now: if there are entries, or its consumer has to be made.

        XREAD has looked before it waits.
        """
        if waiter.wish.group is not None and self._is_ready(waiter):
            self.send(waiter, waiter.places[0], early=False)

    def serve_late(self, waiter: Waiter, place: Place) -> None:
        """Serve one whose time is over, and who was removed, if there may be entries at `place`."""
        self._serve(waiter, place)

    def on_modified(self, pipeline: WritePipeline, modified: Iterable[Modified]) -> None:
        """Note that keys were modified, or are gone."""
        if self._by_place:
            for _, db, name, _, _, key, type_before, type_after, _ in modified:
                if type_before != STREAM or type_after != STREAM or name == _GROUP_GOES or SPECS[name].fills:
                    self.serve((pipeline.partition, db, key))

    def on_submitted(self, pipeline: WritePipeline, item: Item) -> None:
        """Note that a write was sent: run commands right behind it for the keys to which it may add entries."""
        if pipeline.is_held or not self._by_place:
            return  # they are served when it is applied
        with self._partitions.slices.whole():
            alone = pipeline.answers.pending_events == 1 and item.name != b"EXEC"
            for fill in fills_of(item.name, item.args, item.db):
                place = pipeline.partition, fill.db, fill.key
                if place in self._by_place and fill.type in {STREAM, EITHER}:
                    counted = self._elements.counted(pipeline, fill) if alone else (fill.type, fill.elements)
                    if counted[0] in {STREAM, EITHER}:
                        self._serve_early(place, counted[1])

    def popped(self, pop: Pop, reply: Reply) -> None:
        """The outcome of a command, or why there is none."""
        waiter = pop.waiter
        waiter.popping = None
        self._count_taking(waiter, -1)
        shaped = waiter.seen(reply) if pop.is_look else self._shaped(pop, reply)
        waiter.answer(shaped)
        if waiter.pipeline.closing:
            waiter.end()
        missed, waiter.missed = waiter.missed, False
        for place in waiter.places:
            if place in self._passed_over:
                self._passed_over.remove(place)
                self.serve(place)
            elif missed and shaped is None and waiter.is_free:
                self._serve(waiter, place)

    # ------------------------------------------------------------------ whom

    def _serve_all(self, place: Place) -> None:
        """Run the commands of those who wait at `place`, where they find something now."""
        for waiter in list(self._by_place.get(place, ())):
            self._serve(waiter, place)

    def _serve(self, waiter: Waiter, place: Place) -> None:
        if waiter.popping is not None:
            waiter.missed = True
        if not waiter.is_free:
            return
        if waiter.wish.group is None:
            if self._elements.type_of(waiter.pipeline, waiter.db, place[2]) == STREAM:
                self.send(waiter, place, early=False)
            return
        taken = [claim for claim in _claims(waiter) if claim in self._taking]
        if taken:  # who is served there now makes this one look
            self._passed_over.update(claimed for claimed, _ in taken)
            return
        try:
            if self._is_ready(waiter):
                self.send(waiter, place, early=False)
        except CommandError as error:
            waiter.done.set_result(error)

    def _serve_early(self, place: Place, entries: int) -> None:
        """Run commands behind a write that may add so many entries."""
        left: dict[bytes, int] = {}
        for waiter in list(self._by_place[place]):
            group = waiter.wish.group
            if group is not None and waiter.popping is not None and not waiter.popping.early:
                left[group] = 0  # it may take what comes, and those behind it are served when that is known
            if not waiter.is_free or (group is not None and left.setdefault(group, entries) <= 0):
                continue
            if len(waiter.places) > 1 and self._may_fail(waiter):
                continue  # it is answered with an error, once it is known that there are entries
            if group is not None and not waiter.is_denied:
                left[group] -= waiter.wish.wanted
            self.send(waiter, place, early=True)

    def _may_fail(self, waiter: Waiter) -> bool:
        """Whether one of its keys holds another type."""
        return any(
            self._elements.type_of(waiter.pipeline, waiter.db, key) not in {NONE, STREAM} for key in waiter.wish.keys
        )

    def send(self, waiter: Waiter, place: Place, *, early: bool) -> None:
        """Run its command; a client that may not run it any more is refused, as soon as there is something."""
        if waiter.pipeline.closing:
            return
        is_denied = waiter.is_denied
        if is_denied and not early:
            waiter.done.set_result(waiter.refusal())
            return
        waiter.popping = Pop(waiter, place, self.popped, early=early, length=LENGTH[STREAM] if is_denied else None)
        self._count_taking(waiter, 1)
        waiter.pipeline.submit(waiter.popping)

    def _count_taking(self, waiter: Waiter, by: int) -> None:
        """Count the commands under way for its group."""
        for claim in _claims(waiter):
            self._taking[claim] = self._taking.get(claim, 0) + by
            if not self._taking[claim]:
                del self._taking[claim]

    def _is_ready(self, waiter: Waiter) -> bool:
        """Whether an XREADGROUP has something to do: to give entries, or to make its consumer.

        Raises:
            CommandError: as the command has it.
        """
        _, *args = waiter.wish.event
        return bool(self._elements.read(waiter.pipeline, _IS_READY, args, waiter.db))

    # ------------------------------------------------------------------ with what outcome

    def _shaped(self, pop: Pop, reply: Reply) -> Reply:
        """The reply to the client; None if it goes on waiting."""
        waiter = pop.waiter
        if pop.offset >= 0:
            waiter.session.last_position = waiter.pipeline.partition, pop.offset
        if not isinstance(reply, CommandError):
            return None if reply is NIL_ARRAY else reply
        if pop.early and reply.message.startswith(NOTHING_WRITTEN):
            return None  # nor was what it was to read: no affair of this client
        if reply.message == WRONG_TYPE and waiter.wish.group is None:
            held = self._elements.type_of(waiter.pipeline, waiter.db, pop.place[2])
            return reply if held == STREAM else None  # else the key was replaced: XREAD waits for a stream there
        return reply


def _claims(waiter: Waiter) -> list[tuple[Place, bytes]]:
    """The groups from which it takes."""
    group = waiter.wish.group
    return [] if group is None else [(place, group) for place in waiter.places]
