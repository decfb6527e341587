"""Lets clients wait for an element, from their command to its reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from engine.apply.records import Modified
from engine.commands.registry import keys_of
from engine.errors import CommandError
from engine.model import STREAM
from engine.values.replies import NIL_ARRAY, Reply
from resp.blocking.elements import Elements, Partitions
from resp.blocking.serving import Serving
from resp.blocking.streams import StreamServing
from resp.blocking.waiters import BlockingClient, Waiter, Wish
from resp.writes.entries import event_entry
from resp.writes.stopping import about_keys

if TYPE_CHECKING:
    from resp.settings.startup import Address
    from resp.writes.items import Item
    from resp.writes.write_pipeline import WritePipeline

UNBLOCKED: Final = CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK")


class Blocked:
    """All clients of a server that wait for an element.

    Args:
        partitions: the worker's.

    Attributes:
        waiters: in the order in which they came.
        elements: what their keys hold.
        serving, reading: send pops for those who wait for elements, and reads for those who wait for entries.
    """

    def __init__(self, partitions: Partitions) -> None:
        self.waiters: dict[Waiter, None] = {}
        self._partitions, self.elements = partitions, Elements(partitions)
        self.serving = Serving(partitions, self.elements)
        self.reading = StreamServing(partitions, self.elements)

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
        pipeline = self._partitions.router.pipeline_of(wish.keys)
        refusal = pipeline.refusal(write=wish.writes)
        if refusal is not None:
            raise about_keys(refusal, self._partitions.partitions)
        name, *args = wish.event
        entry = None
        if wish.writes:
            entry = event_entry(pipeline.partition, name, args, keys_of(name, args), db=session.db)
        done = asyncio.get_running_loop().create_future()
        waiter = Waiter(session, pipeline, session.db, wish, entry, timeout_s, denial, done)
        serving = self._serving(waiter)
        serving.check(waiter)
        waiter.places = [(pipeline.partition, waiter.db, key) for key in dict.fromkeys(wish.keys)]
        self._join(waiter)
        serving.begin(waiter)
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
        """CLIENT UNBLOCK: as if its time were over, or with an error. False: it does not wait.

        A pop that is under way for it may have found an element, which would be lost.
        """
        waiter = session.blocked
        if waiter is None or waiter.done.done():
            return False
        waiter.unblocked = UNBLOCKED if error else NIL_ARRAY
        if waiter.popping is None:
            waiter.answer(None)
        return True

    def end(self) -> None:
        """End the worker: no more pops, and waiting clients get an error once no pop is under way for them."""
        for waiter in self.waiters:
            waiter.end()

    def leave(self, pipeline: WritePipeline, owner: Address | None) -> None:
        """Another worker has the partition now: send those on who wait there, as Redis does in a cluster.

        Args:
            pipeline: what they wait in.
            owner: where the partition's keys are from now on; None: this tells nobody where.
        """
        for waiter in list(self.waiters):
            if waiter.pipeline is pipeline:
                waiter.send_on(owner)

    def forget(self, session: BlockingClient) -> None:
        """The client is gone: nothing is popped for it any more."""
        if session.blocked is not None:
            self._leave(session.blocked)

    # ------------------------------------------------------------------ who waits

    def on_modified(self, pipeline: WritePipeline, modified: Iterable[Modified]) -> None:
        """Note that keys were modified: clients that wait for them may be served."""
        self.serving.on_modified(pipeline, modified)
        self.reading.on_modified(pipeline, modified)

    def look_again(self) -> None:
        """Check all keys: databases were swapped, or a partition runs again, so any key may have elements now."""
        self.serving.look_again()
        self.reading.look_again()

    def _on_submitted(self, pipeline: WritePipeline, item: Item) -> None:
        """Note that a write was sent."""
        self.serving.on_submitted(pipeline, item)
        self.reading.on_submitted(pipeline, item)

    def _serving(self, waiter: Waiter) -> Serving | StreamServing:
        return self.reading if waiter.wish.type == STREAM else self.serving

    def _join(self, waiter: Waiter) -> None:
        waiter.session.blocked = waiter
        self.waiters[waiter] = None
        self._serving(waiter).add(waiter)
        self._watch(waiter.pipeline)

    def _leave(self, waiter: Waiter) -> None:
        if waiter not in self.waiters:
            return
        del self.waiters[waiter]
        waiter.session.blocked = None
        self._serving(waiter).remove(waiter)
        self._watch(waiter.pipeline)

    def _watch(self, pipeline: WritePipeline) -> None:
        """Watch writes that are sent and applied, while a client waits."""
        pipeline.on_submitted = self._on_submitted if self.any else None
        self._partitions.witness()

    async def _time_out(self, waiter: Waiter) -> Reply:
        """Its time is over; a pop that is under way is waited for, as its element must not be lost.

        Where there are elements that others are about to take, the log decides who was first: nobody is answered nil
        whose key was never empty.
        """
        self._leave(waiter)
        for place in waiter.places:
            await waiter.pipeline.free()
            self._serving(waiter).serve_late(waiter, place)
            while waiter.popping is not None:
                await asyncio.wait((waiter.popping.done,))
        return waiter.done.result() if waiter.done.done() else NIL_ARRAY
