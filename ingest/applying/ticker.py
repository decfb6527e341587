"""Appends a TICK to an idle partition when keys are due, so that they expire."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from engine.errors import CommandError
from engine.store.store import EXPIRY_CF
from engine.values.encoding import pack_u64
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.reporting.observer import Condition
from slotlog.clock import now_ms
from slotlog.errors import LogUnavailableError
from slotlog.events import encode
from slotlog.log import Entry, Log

TICK: Final = encode("TICK", [])
"""The event."""

_TICK_SECONDS: Final = 1.0
_CATCHING_UP_MS: Final = 10_000

logger = structlog.get_logger(__name__)


class Ticker:
    """Appends a TICK to each caught-up partition with something due by the wall clock.

    At most one a second for each. None is sent while the log is away, as it is not known then whether the partition is
    caught up. One that fails is no loss: the next second brings another.

    Args:
        log: started.
        partitions: the owned partitions.
    """

    def __init__(self, log: Log, partitions: Mapping[int, OwnedPartition]) -> None:
        self._log = log
        self._partitions = partitions
        self._outlooks: defaultdict[int, _Outlook] = defaultdict(_Outlook)

    async def run(self, may_expire: Callable[[], bool]) -> None:
        """Append ticks until cancelled, while keys may expire by themselves."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if may_expire():
                await self.look(now_ms(), may_expire)

    async def look(self, wall_ms: int, may_expire: Callable[[], bool] = lambda: True) -> None:
        """Append a tick where something is due at `wall_ms`, while keys may expire by themselves."""
        for partition, owned in self._partitions.items():
            try:
                is_mine = owned.speaks and owned.condition is Condition.RUNNING
                if is_mine and self._outlooks[partition].is_due(owned, wall_ms):
                    await self._tick(partition, owned, may_expire)
            except (LogUnavailableError, CommandError):
                pass  # the consumer finds out as well, or stops the partition, and says so
            except Exception:
                logger.exception("tick_failed", partition=partition)

    async def _tick(self, partition: int, owned: OwnedPartition, may_expire: Callable[[], bool]) -> None:
        """What stands in the log and is not applied will move the clock by itself.

        Also what an open transaction holds up, such as the last TICK: another one behind it would wait with it.
        """
        end = await self._log.high_watermark(partition)
        position = owned.committed
        if position is None or position.next_offset < end or owned.condition is not Condition.RUNNING:
            return
        if not (may_expire() and owned.speaks):  # any more: the log took its time to say where it ends
            return
        if owned.tick is not None:
            owned.tick()
        else:
            await self._log.append([Entry(partition, None, TICK)])


class _Outlook:
    """Whether something expires in a partition between its clock and the wall clock.

    While no event comes its index stays as it is: what was looked through before, with whatever tombstones replaced
    times to live have left there (0.12 us each), is not looked through again.
    """

    __slots__ = ("_is_due", "_looked_ms", "_offset")

    def __init__(self) -> None:
        self._offset = -1
        self._looked_ms = 0
        self._is_due = False

    def is_due(self, owned: OwnedPartition, wall_ms: int) -> bool:
        """Look, in an open partition."""
        position = owned.worker.machine.position
        if position.next_offset != self._offset:
            self._offset, self._looked_ms, self._is_due = position.next_offset, position.clock_ms, False
            if wall_ms - position.clock_ms > _CATCHING_UP_MS:
                return False  # or back after a while without an event: then the next look tells
        if not self._is_due and wall_ms > self._looked_ms:
            start, end = pack_u64(self._looked_ms + 1), pack_u64(wall_ms + 1)
            with owned.reading():
                self._is_due = next(owned.worker.store.scan(EXPIRY_CF, start, end), None) is not None
            self._looked_ms = wall_ms
        return self._is_due
