"""Appends the writes of one turn of the event loop to the log together, for all partitions of a server.

While a pipeline applies a group that was suspended, its others gather: to append the few of each turn would cost more.
So would a group of those who were first to read the replies of the last one: `Company` says how long it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from resp.writes.company import Company
from resp.writes.items import Item
from slotlog.log import Log, RecordPosition

_GROUP_EVENTS_MAX: Final = 1000
_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024

logger = structlog.get_logger(__name__)


class Sender(Protocol):
    """The outbox of one partition.

    Attributes:
        scheduled: whether it is sent in the event loop's next turn.
    """

    scheduled: bool

    @property
    def ready_events(self) -> int:
        """How many items may be sent now."""
        ...

    def schedule(self) -> None:
        """Send what waits in the event loop's next turn."""
        ...

    def next_group(self, events_max: int, bytes_max: int) -> list[Item]:
        """Take what is to be sent, up to the item that reaches one of the bounds."""
        ...

    def append(self, items: list[Item]) -> None:
        """Append them by itself."""
        ...

    def hand_over(self, items: list[Item], positions: list[RecordPosition]) -> None:
        """They are durable."""
        ...

    def fail(self, items: list[Item], error: Exception) -> None:
        """They could not be appended."""
        ...


class Outboxes:
    """Those of one server: what they send in one turn is one append, if the log does it at once.

    Args:
        log: where writes go.
        deliver: sends the replies that are there.
    """

    __slots__ = ("_company", "_deliver", "_hands_over", "_has_replies", "_scheduled", "log")

    def __init__(self, log: Log, deliver: Callable[[], None]) -> None:
        self.log = log
        self._deliver = deliver
        self._scheduled: list[Sender] = []
        self._hands_over = self._has_replies = False
        self._company = Company()

    def schedule(self, outbox: Sender) -> None:
        """Send what waits in this outbox in the event loop's next turn; not called again before that."""
        if not self._scheduled:
            asyncio.get_running_loop().call_soon(self._send)
        self._scheduled.append(outbox)

    def delivered(self) -> None:
        """Replies of a partition are there: send them, now or with those of the partitions in the same append."""
        if self._hands_over:
            self._has_replies = True
        else:
            self._deliver()

    # ------------------------------------------------------------------ inside

    def _send(self) -> None:
        """Send the next group to the log."""
        scheduled, self._scheduled = self._scheduled, []
        for outbox in scheduled:
            outbox.scheduled = False
        ready = [outbox for outbox in scheduled if outbox.ready_events]
        count = sum([outbox.ready_events for outbox in ready])
        if not ready:
            return
        if self._company.is_awaited(count):
            for outbox in ready:
                outbox.schedule()
            return
        groups = _cut(ready)
        sent = groups[0][1] if len(groups) == 1 else [item for _, items in groups for item in items]
        self._company.sent(sent)
        entries = [item.entry for item in sent if item.entry is not None]
        try:
            positions = self.log.append_at_once(entries) if entries else []
        except Exception as error:  # noqa: BLE001 - whatever it is, clients wait for these items
            for outbox, items in groups:
                outbox.fail(items, error)
            return
        if positions is not None:
            self._hand_over(groups, positions)
            return
        for outbox, items in groups:  # each by itself, as partitions of Kafka need not wait for each other
            outbox.append(items)

    def _hand_over(self, groups: list[tuple[Sender, list[Item]]], positions: list[RecordPosition]) -> None:
        self._hands_over = True
        at = 0
        try:
            for outbox, items in groups:
                end = len(positions) if len(groups) == 1 else at + sum([item.entry is not None for item in items])
                try:
                    outbox.hand_over(items, positions[at:end])
                except Exception:  # a bug of ours: the other partitions' writes have to be applied all the same
                    logger.exception("hand_over_failed", positions=positions[at:end][:1])
                at = end
        finally:  # else no reply of anybody would be sent any more
            self._hands_over = False
        if self._has_replies:
            self._has_replies = False
            self._deliver()


def _cut(ready: list[Sender]) -> list[tuple[Sender, list[Item]]]:
    """What is sent now. Outboxes for which there is no room are scheduled again."""
    groups: list[tuple[Sender, list[Item]]] = []
    events, size = _GROUP_EVENTS_MAX, _GROUP_BYTES_MAX
    for outbox in ready:
        if events <= 0 or size <= 0:
            outbox.schedule()
            continue
        items = outbox.next_group(events, size)
        groups.append((outbox, items))
        if len(ready) > 1:
            events -= len(items)
            size -= sum([item.size for item in items])
    return groups
