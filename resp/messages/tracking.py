"""Client-side caching: tells clients that keys which they may have cached are out of date.

    default   a key that a tracking client has read stands in a table; the first change of it is told, once
    BCAST     every change of a key with one of the client's prefixes is told

The change is found when its batch is committed, whoever wrote it: a client here, a producer, or time. While nobody
tracks, nothing here is called, and no machine notes what it modifies. See
https://valkey.io/topics/client-side-caching/; texts, order and limits are those of valkey 9.1's src/tracking.c.

A read and a write of one key may be applied together and told later. So a read counts from its place in the log on: a
change before it is none for it, and a change behind it is told behind its reply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol

from engine.commands.registry import SPECS
from engine.model import NONE
from engine.values.replies import Reply
from resp.messages.broadcast import Broadcast
from resp.messages.tracker import Options, Tracker
from resp.messages.tracking_table import TrackingTable
from resp.wire.server_replies import Push

if TYPE_CHECKING:
    from engine.apply.records import Applied
    from engine.cleaning.sweep import Swept
    from resp.settings.config import Config

CHANNEL: Final = b"__redis__:invalidate"
"""Where a RESP2 client hears invalidations that are redirected to it."""

_INVALIDATE_ALL: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})
_EFFORT: Final = 100
"""Keys that one round of the periodic work takes out of a table that is over its limit; more in each further round."""


class CachingClient(Protocol):
    """A client that tracks keys, or that invalidations are redirected to.

    Attributes:
        id: its number.
        protocol: the version of RESP that it speaks.
        closing: its connection is being closed.
        tracking: what it tracks; None: nothing.
    """

    id: int
    protocol: Literal[2, 3]
    closing: bool
    tracking: Tracker | None

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to anything."""
        ...

    def tell(self, message: Reply) -> None:
        """Send it a message that must not overtake the reply to an earlier read."""
        ...


class Tracking:
    """The clients of one server that track keys.

    Args:
        clients: connected clients by number.
        config: has `tracking-table-max-keys`.
        changed: called when the first client begins to track, and when the last one ends it.
        flush: sends what has come up for clients.

    Attributes:
        any: whether anybody tracks; nothing here is called while nobody does.
        table: what clients have read.
        broadcast: the prefixes.
        invalidations: how many messages were sent.
    """

    def __init__(
        self,
        clients: Mapping[int, CachingClient],
        config: Config,
        changed: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        self.any = False
        self.table, self.broadcast = TrackingTable(), Broadcast()
        self.invalidations = 0
        self._clients, self._config, self._changed, self._flush = clients, config, changed, flush
        self._tracking: dict[int, CachingClient] = {}
        self._observed: dict[int, int] = {}
        self._reads: dict[int, deque[tuple[int, CachingClient, list[bytes]]]] = {}
        self._own_writes: dict[int, dict[int, int]] = {}
        self._unsure: dict[int, None] = {}
        self._rounds = 0
        self._flushes = False

    @property
    def clients(self) -> int:
        """How many clients track."""
        return len(self._tracking)

    # ------------------------------------------------------------------ who tracks

    def enable(self, client: CachingClient, options: Options) -> None:
        """Let the client track from now on, with checked options; those that it had before end."""
        tracker = client.tracking
        if tracker is None:
            tracker = client.tracking = Tracker(options)
        tracker.options, tracker.broken = options, False
        if options.bcast:
            for prefix in options.prefixes or (b"",):
                tracker.prefixes[prefix] = None
                self.broadcast.add(prefix, client.id)
        self._tracking[client.id] = client
        if not self.any:
            self.any = True
            self._changed()

    def disable(self, client: CachingClient) -> None:
        """Let it track no more. With the last one the table goes too: nobody would hear of its keys' changes."""
        tracker, client.tracking = client.tracking, None
        if tracker is None:
            return
        for prefix in tracker.prefixes:
            self.broadcast.remove(prefix, client.id)
        del self._tracking[client.id]
        if not self._tracking:
            self.any = False
            self.table.clear()
            self._reads.clear()
            self._own_writes.clear()
            self._observed.clear()
            self._changed()

    # ------------------------------------------------------------------ what is read

    def follow(self, partition: int, next_offset: int) -> None:
        """What stands before `next_offset` in a partition is told, or was applied while nobody tracked."""
        self._observed[partition] = next_offset

    def read(self, client: CachingClient, partition: int, keys: list[bytes], offset: int) -> None:
        """Note that the client has read keys, in the state that a partition had before the record at `offset`.

        To be called when the reply has its place in the client's output.
        """
        observed = self._observed.get(partition, 0)
        if offset > observed:  # what stands before is applied, and told soon
            self._reads.setdefault(partition, deque()).append((offset, client, keys))
        elif offset == observed:
            self._add(client, keys)
        else:  # something behind it was told while the reply was on its way
            for key in keys:
                self._tell(client, [key])

    def _add(self, client: CachingClient, keys: Iterable[bytes]) -> None:
        tracker = client.tracking
        if tracker is None or tracker.options.bcast:
            return
        for key in keys:
            self.table.add(key, client.id)
        keys_max = self._config["tracking-table-max-keys"]
        while keys_max and len(self.table) > keys_max:
            self._make_room()

    def limit(self) -> None:
        """Take some keys out of a table that is over its limit, since CONFIG SET has lowered that."""
        keys_max = self._config["tracking-table-max-keys"]
        self._rounds += 1
        for _ in range(self._rounds * _EFFORT):
            if not keys_max or len(self.table) <= keys_max:
                self._rounds = 0
                return
            self._make_room()

    def _make_room(self) -> None:
        """Forget a key, and tell its clients so, as if it was modified."""
        key, clients = self.table.take_oldest()
        for number in clients:
            self._invalidate(number, key)

    # ------------------------------------------------------------------ what is modified

    def wrote(self, client: CachingClient, partition: int, offset: int) -> None:
        """Note who has written a record that is told next, as NOLOOP asks for that."""
        if client.tracking is not None and client.tracking.options.noloop:
            self._own_writes.setdefault(partition, {})[offset] = client.id

    def on_applied(self, partition: int, applied: Applied) -> None:
        """Tell what a committed batch has modified."""
        own_writes = self._own_writes.get(partition, {})
        for offset, _, command, _, _, key, before, *_ in applied.modified:
            self._take_reads(partition, offset)
            if before == NONE or not SPECS[command].keeps_watches:  # as in Redis, where both ask the same
                self._on_modified(key, own_writes.get(offset))
        self._take_reads(partition, applied.next_offset)
        self._observed[partition] = applied.next_offset
        if not _INVALIDATE_ALL.isdisjoint(applied.commands):
            self.invalidate_all()
        if own_writes:
            self._own_writes[partition] = {at: who for at, who in own_writes.items() if at >= applied.next_offset}

    def on_swept(self, swept: Swept) -> None:
        """Tell the keys that have expired, or that have lost fields."""
        for db_and_key in dict.fromkeys((*swept.keys, *[(db, key) for db, key, _ in swept.fields])):
            self._on_modified(db_and_key[1])

    def invalidate_all(self) -> None:
        """Tell every tracking client that nothing that it has is good any more, and begin anew."""
        self.table.clear()
        for client in list(self._tracking.values()):
            self._tell(client, None)

    def on_condition(self, partition: int, *, is_stopped: bool) -> None:
        """Handle a partition that stops, moves to another worker, or is opened again: nobody knows what has changed."""
        if is_stopped:
            self._unsure[partition] = None
        elif partition in self._unsure:
            del self._unsure[partition]
        else:
            return
        self._reads.pop(partition, None)
        self.invalidate_all()

    def _take_reads(self, partition: int, offset: int) -> None:
        """Let reads count that were evaluated before the record at `offset`."""
        reads = self._reads.get(partition)
        while reads and reads[0][0] <= offset:
            _, client, keys = reads.popleft()
            self._add(client, keys)

    def _on_modified(self, key: bytes, writer: int | None = None) -> None:
        """Tell of a key; `writer` is the client that has asked for NOLOOP and modified it."""
        if len(self.broadcast) and self.broadcast.note(key, writer):
            self._flush_soon()
        for number in self.table.take(key):
            if number != writer:
                self._invalidate(number, key)

    # ------------------------------------------------------------------ messages

    def _invalidate(self, number: int, key: bytes) -> None:
        client = self._tracking.get(number)
        if client is not None and client.tracking is not None and not client.tracking.options.bcast:
            self._tell(client, [key])

    def _flush_soon(self) -> None:
        """Send it all in the next turn of the event loop, if nobody does before."""
        if not self._flushes:
            self._flushes = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._tell_prefixes()
        self._flushes = False
        self._flush()

    def _tell_prefixes(self) -> None:
        for numbers, keys in self.broadcast.take():
            everything = list(keys)
            for number in numbers:
                client = self._tracking[number]
                assert client.tracking is not None
                if not client.tracking.options.noloop:
                    self._tell(client, everything)
                elif others := [key for key, writer in keys.items() if writer != number]:
                    self._tell(client, others)

    def _tell(self, client: CachingClient, keys: list[bytes] | None) -> None:
        """Send an invalidation to the client, or to whom it redirects; None: of everything."""
        tracker = client.tracking
        if tracker is None:
            return
        target, redirect = client, tracker.options.redirect
        if redirect:
            found = self._clients.get(redirect)
            if found is None or found.closing:
                tracker.broken = True
                if client.protocol == 3:
                    client.tell(Push([b"tracking-redir-broken", redirect]))
                    self._flush_soon()
                return
            target = found
        if target.protocol == 3:
            target.tell(Push([b"invalidate", keys]))
        elif redirect and target.is_subscriber:
            target.tell(Push([b"message", CHANNEL, keys]))
        else:
            return
        self.invalidations += 1
        self._flush_soon()
