"""The health of a service, for `/livez`, `/readyz` and systemd."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

from ingest.applying.consumer import Consumer
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.applying.partitions.ownership import Ownership
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import Condition
from ops.config import Settings
from ops.metrics.counts import UNHEARD_SECONDS
from ops.state.clocks.guard import clocks_ahead, lead_of_wall_clock
from ops.state.opening.directories import free_space_guard
from slotlog.clock import WALL
from slotlog.log import Log
from slotlog.wording import counted

_HELD_UP_SECONDS: Final = 10.0
_UNHEARD_SECONDS: Final = UNHEARD_SECONDS
_STUCK_SECONDS: Final = 300.0
"""Between two looks at `Consumer.alive_at` lies at most what waits for one answer of a log that is away: a request's
time-out or two. Longer than this is no waiting, but a bug; a restart mends it."""
_STUCK_REQUESTS: Final = 5
_PROBE_SECONDS: Final = 5.0
_PROBE_BYTES: Final = 4096  # a page: enough to need a block of the disk

STOPPING: Final = "slotlog is shutting down"

Probe = Callable[[Path, int], str]
"""Says why nothing can be written to a directory with so many bytes in reserve; empty when it can."""


def _nothing(_partition: int) -> str:
    """Nothing is being restored."""
    return ""


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """The health of one owned partition.

    Attributes:
        ready: whether it is applied and near the log's end.
        lag_events: as the log said last; None before it did.
    """

    partition: int
    condition: str
    ready: bool
    lag_events: int | None
    reason: str

    @property
    def is_coming(self) -> bool:
        """Whether it is being opened or is behind: with time it will be ready, and nothing else helps."""
        return not self.ready and self.condition in {Condition.OPENING, Condition.RUNNING}


class Health:
    """The health of one service, found out when somebody asks.

    Args:
        consumer: with the owned partitions.
        lag_of: the last known lag of a partition, in events; None before the first.
        settings: bounds, and where the data is.
        log: that is applied and appended to.
        probe: whether the disk can be written to, asked in a thread at most every 5 s.

    Attributes:
        stopping: whether the service ends: then nothing is ready.
        log_awaited: why the start waits for the log; empty where it does not.
        ownership: what is known of other owners; None: nothing.
        dead_letters: where they go; None: nowhere.
        restoring: what is being restored of a partition; empty where nothing is.
        group: why the group of this worker has not come to rest since it began; empty where it has, or there is none.
    """

    def __init__(
        self,
        consumer: Consumer,
        lag_of: Callable[[int], int | None],
        settings: Settings,
        log: Log,
        probe: Probe | None = None,
    ) -> None:
        self.stopping = False
        self.log_awaited = ""
        self.ownership: Ownership | None = None
        self.dead_letters: DeadLetters | None = None
        self.restoring: Callable[[int], str] = _nothing
        self.group: Callable[[], str] | None = None
        self._consumer = consumer
        self._lag_of = lag_of
        self._settings = settings
        self._log = log
        self._probe = probe or unwritable
        self._disk = ""
        self._disk_until = 0.0
        self._stuck_seconds = max(_STUCK_SECONDS, _STUCK_REQUESTS * settings.kafka.request_timeout_ms / 1000)

    def stuck(self) -> str:
        """Why a restart is needed; empty while the loop that applies the log turns, or has not begun."""
        alive_at = self._consumer.alive_at
        seconds = monotonic() - alive_at if alive_at else 0.0
        if seconds <= self._stuck_seconds:
            return ""
        return f"the loop that applies the log has not turned for {seconds:.0f} s"

    def partitions(self) -> list[PartitionHealth]:
        """Every owned partition: whether it is applied, and near enough to the log's end."""
        return [self._partition(partition, owned) for partition, owned in self._consumer.owned.items()]

    async def readiness(self) -> dict[str, Any]:
        """`ready`, and of what that is made: `log`, `disk`, `clock`, in a group `group`, and `partitions`."""
        log, disk, clock, partitions = self._log_trouble(), await self._asked_disk(), WALL.trouble(), self.partitions()
        group = "" if self.group is None else STOPPING if self.stopping else self.group()
        return {
            "ready": not (log or disk or clock or group) and all(partition.ready for partition in partitions),
            "log": {"ready": not log, "reason": log, "warnings": self._warnings()},
            "disk": {"ready": not disk, "reason": disk},
            "clock": {"ready": not clock, "reason": clock},
            **({} if self.group is None else {"group": {"ready": not group, "reason": group}}),
            "partitions": [asdict(partition) for partition in partitions],
        }

    def _log_trouble(self) -> str:
        heard_at = self._consumer.log_heard_at
        seconds = monotonic() - heard_at
        if heard_at and seconds <= _UNHEARD_SECONDS:
            return ""
        why = self.log_awaited or self._consumer.log_trouble
        since = f"for {seconds:.0f} s" if heard_at else "yet"
        return f"{self._log.url} has not answered {since}" + (f": {why}" if why else "")

    def _warnings(self) -> list[str]:
        """What is wrong with the log and keeps nobody from applying it."""
        cut = [
            f"partition {partition} begins at offset {owned.begin_offset}, and no verified snapshot is known that"
            " reaches it: the state cannot be built again"
            for partition, owned in self._consumer.partitions.items()
            if owned.is_cut_off
        ]
        ahead = [
            f"the clock of partition {partition} is {ahead_ms / 1000:.0f} s ahead of the wall clock: keys die too early"
            f" and then none does; `slotlog clock set {partition}` sets it back"
            for partition, ahead_ms in clocks_ahead(self._consumer.partitions).items()
        ]
        owned = self.ownership.warnings() if self.ownership is not None else []
        lead = filter(None, [lead_of_wall_clock()])
        return [*cut, *ahead, *lead, *owned, *self._concerns()]

    def _concerns(self) -> list[str]:
        dead_letters = () if self.dead_letters is None else self.dead_letters.concerns
        return [f"a start would be refused: {concern}" for concern in (*self._log.concerns, *dead_letters)]

    async def _asked_disk(self) -> str:
        if monotonic() >= self._disk_until:
            self._disk_until = monotonic() + _PROBE_SECONDS  # first: who asks meanwhile hears what was found last
            self._disk = await asyncio.to_thread(self._probe, self._settings.data, self._settings.free_bytes_min)
        return self._disk

    def _partition(self, partition: int, owned: OwnedPartition) -> PartitionHealth:
        lag, lag_max = self._lag_of(partition), self._settings.lag_events_ready_max
        reason = self.restoring(partition) or owned.reason
        if self.stopping:
            reason = STOPPING
        elif owned.condition is Condition.RUNNING and lag is None:
            reason = "how far it is behind is not known yet"
        elif owned.condition is Condition.RUNNING and lag is not None and lag > lag_max:
            reason = f"{counted(lag, 'event')} behind the log, more than {lag_max}"
        elif (held_seconds := owned.held_up_seconds) > _HELD_UP_SECONDS:
            reason = f"the log stands still: somebody's transaction has been open for {held_seconds:.0f} s"
        elif not reason and (failure := self._log.append_counts.failure_of(partition)):
            reason = f"the last append failed, so that nothing can be written: {failure}"
        ready = owned.condition is Condition.RUNNING and not reason
        return PartitionHealth(partition, str(owned.condition), ready, lag, reason)


def unwritable(data: Path, free_bytes_min: int) -> str:
    """Why nothing can be written to `data` now; empty when a page went to its disk and the reserve is free."""
    try:
        with tempfile.TemporaryFile(dir=data) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return free_space_guard(data, free_bytes_min)
    except OSError as error:
        return f"{data} cannot be written to: {error.strerror or error}"
