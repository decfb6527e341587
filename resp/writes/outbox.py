"""Appends the writes of one turn of the event loop to the log together, one append at a time.

While the pipeline applies a group that was suspended, the others gather: to append the few of each turn would cost
more. So would a group of those who were first to read the replies of the last one: as long as a group is smaller than
the last one, and each turn brings more of it, it has another turn, which waits for nothing. Measured with 50 clients
that send one SET at a time: groups of 42 in the mean instead of 33, where a group's own cost is that of seven of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from resp.writes.items import Item
from slotlog.log import Entry, Log, RecordPosition

_GROUP_EVENTS_MAX: Final = 1000
_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024


class Outbox:
    """Items on their way to the log, with the reads behind them.

    Args:
        log: where writes go.
        arrived: takes items that are durable, and the positions of the writes among them.
        failed: takes items that were to be appended, those behind them, which never were, and why.

    Attributes:
        items: what waits.
        scheduled: whether it is sent in the event loop's next turn.
        gathers: nothing is sent yet; see `go_on`.
    """

    __slots__ = (
        *("_appending", "_arrived", "_failed", "_last_count", "_log", "_seen_count", "_sent"),
        *("gathers", "items", "scheduled"),
    )

    def __init__(
        self,
        log: Log,
        arrived: Callable[[list[Item], list[RecordPosition]], None],
        failed: Callable[[list[Item], list[Item], Exception], None],
    ) -> None:
        self._log = log
        self._arrived = arrived
        self._failed = failed
        self._sent: list[Item] = []
        self._appending: asyncio.Task[None] | None = None
        self._last_count = 0  # items of the last group
        self._seen_count = 0  # those that waited when they were given another turn
        self.items: deque[Item] = deque()
        self.scheduled = self.gathers = False

    @property
    def is_appending(self) -> bool:
        """Whether an append is under way."""
        return self._appending is not None

    def schedule(self) -> None:
        """Send what waits in the event loop's next turn."""
        if not self.scheduled:
            self.scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

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

    # ------------------------------------------------------------------ inside

    def _send(self) -> None:
        """Send the next group to the log."""
        self.scheduled = False
        if self._appending is not None or self.gathers or not self.items:
            return
        if self._seen_count < len(self.items) < self._last_count:
            self._seen_count = len(self.items)
            self.schedule()
            return
        items = self._next_group()
        self._last_count, self._seen_count = len(items), 0
        entries = [item.entry for item in items if item.entry is not None]
        try:
            positions = self._log.append_at_once(entries) if entries else []
        except Exception as error:  # noqa: BLE001 - whatever it is, clients wait for these items
            self._failed(items, self.take(), error)
            return
        if positions is None:
            self._sent = items
            self._appending = asyncio.get_running_loop().create_task(self._append(entries))
            return
        self._hand_over(items, positions)

    async def _append(self, entries: list[Entry]) -> None:
        positions: list[RecordPosition] = []
        failure: Exception | None = None
        try:
            positions = await self._log.append(entries)
        except Exception as error:  # noqa: BLE001 - as in `_send`
            failure = error
        self._appending = None
        items = self.take_sent()
        if failure is not None:
            self._failed(items, self.take(), failure)
        elif items:
            self._hand_over(items, positions)

    def _hand_over(self, items: list[Item], positions: list[RecordPosition]) -> None:
        self._arrived(items, positions)
        if self.items:
            self.schedule()

    def _next_group(self) -> list[Item]:
        waiting = self.items
        if len(waiting) <= _GROUP_EVENTS_MAX and sum([item.size for item in waiting]) <= _GROUP_BYTES_MAX:
            return self.take()
        items: list[Item] = []
        size = 0
        while waiting and len(items) < _GROUP_EVENTS_MAX and size < _GROUP_BYTES_MAX:
            item = waiting.popleft()
            size += item.size
            items.append(item)
        return items
