"""The writes of one partition on their way to the log, with the reads behind them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from resp.writes.items import Item
from resp.writes.outboxes import Outboxes
from slotlog.log import Entry, RecordPosition


class Outbox:
    """Items that are to be sent to the log.

    Args:
        outboxes: those of the server, which sends them.
        arrived: takes items that are durable, and the positions of the writes among them.
        failed: takes items that were to be appended, those behind them, which never were, and why.

    Attributes:
        items: what waits.
        scheduled: whether it is sent in the event loop's next turn.
        gathers: nothing is sent yet; see `go_on`.
    """

    __slots__ = ("_appending", "_arrived", "_failed", "_outboxes", "_sent", "gathers", "items", "scheduled")

    def __init__(
        self,
        outboxes: Outboxes,
        arrived: Callable[[list[Item], list[RecordPosition]], None],
        failed: Callable[[list[Item], list[Item], Exception], None],
    ) -> None:
        self._outboxes = outboxes
        self._arrived = arrived
        self._failed = failed
        self._sent: list[Item] = []
        self._appending: asyncio.Task[None] | None = None
        self.items: deque[Item] = deque()
        self.scheduled = self.gathers = False

    @property
    def is_appending(self) -> bool:
        """Whether an append is under way."""
        return self._appending is not None

    @property
    def ready_events(self) -> int:
        """How many items may be sent now."""
        return 0 if self._appending is not None or self.gathers else len(self.items)

    def schedule(self) -> None:
        """Send what waits in the event loop's next turn."""
        if not self.scheduled:
            self.scheduled = True
            self._outboxes.schedule(self)

    def go_on(self) -> None:
        """What has gathered may be sent."""
        self.gathers = False
        if self.items:
            self.schedule()

    async def settled(self) -> None:
        """Wait until it is known of everything that was sent whether it is in the log, and where."""
        if self._appending is not None:
            await asyncio.wait((self._appending,))

    def take(self) -> list[Item]:
        """What was not sent; it is to be forgotten here."""
        items = list(self.items)
        self.items.clear()
        return items

    def take_sent(self) -> list[Item]:
        """What was sent, and nobody knows yet what came of it; it is to be forgotten here."""
        items, self._sent = self._sent, []
        return items

    # ------------------------------------------------------------------ of Outboxes

    def next_group(self, events_max: int, bytes_max: int) -> list[Item]:
        """Take what is to be sent, up to the item that reaches one of the bounds."""
        waiting = self.items
        if len(waiting) <= events_max and sum([item.size for item in waiting]) <= bytes_max:
            return self.take()
        items: list[Item] = []
        size = 0
        while waiting and len(items) < events_max and size < bytes_max:
            item = waiting.popleft()
            size += item.size
            items.append(item)
        return items

    def append(self, items: list[Item]) -> None:
        """Append them by itself, and wait for the log."""
        self._sent = items
        entries = [item.entry for item in items if item.entry is not None]
        self._appending = asyncio.get_running_loop().create_task(self._append(entries))

    def hand_over(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """They are durable, and these are the positions of the writes among them."""
        self._arrived(items, positions)
        if self.items:
            self.schedule()

    def fail(self, items: list[Item], error: Exception) -> None:
        """They could not be appended, so nothing of what waits behind them is."""
        self._failed(items, self.take(), error)

    # ------------------------------------------------------------------ inside

    async def _append(self, entries: list[Entry]) -> None:
        positions: list[RecordPosition] = []
        failure: Exception | None = None
        try:
            positions = await self._outboxes.log.append(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, clients wait for these items
            failure = error
        self._appending = None
        items = self.take_sent()
        if failure is not None:
            self.fail(items, failure)
        elif items:
            self.hand_over(items, positions)
