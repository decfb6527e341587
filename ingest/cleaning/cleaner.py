"""Cleans a running service: deletes expired keys, fields and dead collections, and frees their disk space.

    expire    keys and fields that are due by the partition's clock     engine/cleaning/sweep.py
    reclaim   what dead collections have left                           engine/cleaning/reclaim.py
    forget    what lies behind its window: idempotency keys, watches    engine/cleaning/sweep.py
    compact   what was deleted as a range, in a thread                  ingest/cleaning/compactor.py
    tick      moves the clock of a partition to which nobody writes     ingest/applying/ticker.py

Cleaning changes no reply, no digest and no replay. It runs between two batches of a partition, in slices of a few
milliseconds at most. Together they take no more than a share of the event loop's time. After a write of the cleaner has
failed, nobody knows what is stored. So the partition is set aside and opened again, as after any failed write: at once,
or when there is room.

A partition that waits because the disk is full is cleaned too, while there is room for the few bytes that this writes.
So the partition may continue by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Final, Protocol

import structlog

from engine.cleaning.reclaim import read_cursor
from engine.cleaning.sweep import Swept
from engine.errors import StoreBusyError, StoreFullError
from engine.store.failures import damaged
from engine.store.store import is_damage
from engine.values.encoding import parse_u64
from ingest.applying.partitions.owned_partition import HasRoom, OwnedPartition, no_room
from ingest.applying.slicing.gate import Gate
from ingest.applying.ticker import Ticker
from ingest.cleaning.chores import Allowance, CleaningJob
from ingest.cleaning.compactor import Compactor
from ingest.reporting.observer import Cleaned, Condition, Observer
from slotlog.log import Log
from slotlog.shared.shown_errors import named_error

_SLICE_SECONDS_MIN: Final = 0.001
_SLICE_SECONDS_MAX: Final = 0.004
"""How long a slice holds the event loop where nobody else wants it, and how long it may."""

_BUSY_SLICE_SECONDS_MAX: Final = 0.008
"""How long it may where a turn of the loop takes so long by itself that few would notice."""

_OWED_SECONDS_MAX: Final = 0.1
_SHARE_MAX: Final = 0.75
_LATE_MS: Final = 2000
"""What has been due for longer than that has twice the share: who writes much that dies soon has to wait for it."""

_LOOK_SECONDS_MAX: Final = 0.1
_FORGET_SECONDS: Final = 60.0
_BUSY_SECONDS: Final = 1.0
_RESTART_SECONDS: Final = 60.0

logger = structlog.get_logger(__name__)


class SetAside(Protocol):
    """Sets a partition aside."""

    def __call__(self, partition: int, reason: str, *, is_full: bool = False) -> None:
        """Say why its store must be opened again; one that `is_full` has written nothing, and waits for room."""


Tell = Callable[[int, Swept], None]
"""Takes a partition and what has expired in it, once that is committed."""

MayExpire = Callable[[], bool]
"""Whether keys may go by themselves, and clocks be moved for it, now."""


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """Settings of cleaning: amounts and intervals.

    Attributes:
        interval_s: between two looks at a partition in which nothing was left.
        keys_max: keys removed in one go.
        loop_share: of the event loop's time, at most 0.5, while there is something to do; twice that, up to 0.75, while
            it is late.
        elements_per_s: of dead collections, all partitions together; 0: as many as the share allows.
        compaction_bytes_per_s: of files read; 0: no limit.
    """

    interval_s: float = 1.0
    keys_max: int = 1000
    loop_share: float = 0.25
    elements_per_s: int = 0
    compaction_bytes_per_s: int = 0


def _tell_nobody(_partition: int, _swept: Swept) -> None:
    """Nobody wants to know what expires."""


def _always() -> bool:
    return True


class Cleaner:
    """Cleans the owned partitions of one process, those that run.

    Args:
        log: where ticks go; started.
        partitions: the owned partitions.
        observer: told of every slice that did something.
        set_aside: called when a partition's store must be reopened.
        settings: how much, how often.
        has_room: asked where the disk is full.
    """

    def __init__(
        self,
        log: Log,
        partitions: Mapping[int, OwnedPartition],
        observer: Observer,
        set_aside: SetAside,
        settings: CleaningSettings | None = None,
        has_room: HasRoom = no_room,
    ) -> None:
        self._partitions = partitions
        self._observer = observer
        self._set_aside = set_aside
        self._settings = settings or CleaningSettings()
        self._tell: Tell = _tell_nobody
        self._may_expire: MayExpire = _always
        self._has_room = has_room
        self._jobs: dict[int, CleaningJob] = {}
        self._present: set[int] = set()
        self._turns: deque[int] = deque()
        self._elements = Allowance(self._settings.elements_per_s, monotonic())
        self._ticker = Ticker(log, partitions)
        bytes_per_s = self._settings.compaction_bytes_per_s
        self._compactor = Compactor(partitions, self.job, observer, self.failed, bytes_per_s, has_room)

    def serve(self, tell: Tell, may_expire: MayExpire) -> None:
        """Before `run`: let a server hear what expires, and say whether anything may."""
        self._tell = tell
        self._may_expire = may_expire

    async def run(self) -> None:
        """Clean until cancelled. A compaction that is under way then ends with its piece, or as its store is closed."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._clean())
                    tasks.create_task(self._ticker.run(self._may_expire))
                    tasks.create_task(self._compactor.run())
            except Exception:  # a bug of ours: whoever is served need not suffer from it
                logger.exception("cleaner_failed")
            await asyncio.sleep(_RESTART_SECONDS)

    async def _clean(self) -> None:
        """One slice after the other while there is something to do, with pauses that leave the loop to others.

        A pause lasts until they have had their share. Where the loop is busy it takes longer, and more is owed to us:
        then a slice follows in each of its turns. There most commands are suspended at least once, and one or the other
        is whenever we look: so we queue at the gate, as everybody does.
        """
        look_seconds = min(self._settings.interval_s, _LOOK_SECONDS_MAX)
        owed, earned = _SLICE_SECONDS_MIN, 0.0
        while True:
            began = perf_counter()
            most = max(_SLICE_SECONDS_MAX, min(earned, _BUSY_SLICE_SECONDS_MAX))
            has_cleaned = self._clean_for(min(max(owed, _SLICE_SECONDS_MIN), most))
            gate = None if has_cleaned else self._gate_in_the_way()
            if not has_cleaned and gate is None:
                await asyncio.sleep(look_seconds)
                owed, earned = _SLICE_SECONDS_MIN, 0.0
                continue
            ended = perf_counter()
            ours = self._share()
            owed -= ended - began
            if gate is None:
                await asyncio.sleep(max(0.0, _SLICE_SECONDS_MIN - owed) * (1 - ours) / ours)
            else:
                with suppress(TimeoutError):  # of a command that takes long: other partitions are to be cleaned as well
                    async with asyncio.timeout(look_seconds):
                        await gate.free()
            earned = (perf_counter() - ended) * ours / (1 - ours)
            owed = min(owed + earned, _OWED_SECONDS_MAX)

    def _clean_for(self, seconds: float) -> bool:
        """Slices of about so long together; False: there was nothing to do."""
        until = perf_counter() + seconds
        found = self.clean_some(seconds)
        while found and (left := until - perf_counter()) >= _SLICE_SECONDS_MIN and self.clean_some(left):
            pass
        return found

    def _gate_in_the_way(self) -> Gate | None:
        """The gate of a partition that has something to clean and is held; its turn is the next one."""
        now = monotonic()
        for partition in self._turns:
            job = self._jobs.get(partition)
            if job is not None and job.machine.is_held and job.is_wanted(now):
                self._turns.rotate(-self._turns.index(partition))
                return self._partitions[partition].worker.gate
        return None

    def _share(self) -> float:
        """Of the event loop's time, now."""
        share = self._settings.loop_share
        is_late = any(job.late_ms > _LATE_MS for job in self._jobs.values())
        return min(share * 2, _SHARE_MAX) if is_late else share

    # ------------------------------------------------------------------ one slice

    def clean_some(self, seconds: float) -> bool:
        """One slice, of about so long, in the next partition where there is something to do; False: nowhere."""
        now = monotonic()
        if self._partitions.keys() != self._present:  # some were taken or given up
            self._present, self._turns = set(self._partitions), deque(self._partitions)
        for _ in range(len(self._turns)):
            partition = self._turns[0]
            self._turns.rotate(-1)
            try:
                job = self.job(partition)
                if job is not None and now >= job.not_before and self._slice(partition, job, seconds, now):
                    return True
            except Exception as error:  # noqa: BLE001 - the partition is stopped with it
                self.failed(partition, error)
        return False

    def job(self, partition: int) -> CleaningJob | None:
        """The cleaning of a partition that can be cleaned now.

        Raises:
            CorruptionError: how far it has come cannot be read.
        """
        owned = self._partitions[partition]
        may_write = owned.condition is Condition.RUNNING or (owned.waits_for_room and self._has_room(0))
        if not may_write or not owned.worker.is_open:
            self._jobs.pop(partition, None)
            return None
        machine = owned.worker.machine
        job = self._jobs.get(partition)
        if job is None or job.machine is not machine:
            job = self._jobs[partition] = CleaningJob(machine, owned.worker.store)
        return job if machine.is_settled and not machine.is_held else None

    def failed(self, partition: int, error: Exception) -> None:
        """Leave a store alone that is busy; set aside a partition of whose store nobody knows what it holds now."""
        job = self._jobs.get(partition)
        if isinstance(error, StoreBusyError) and job is not None:  # nothing was written
            job.not_before = monotonic() + _BUSY_SECONDS
            return
        self._jobs.pop(partition, None)
        if isinstance(error, StoreFullError):
            self._set_aside(partition, str(error), is_full=True)
            return
        if is_damage(error):
            reason = str(damaged(error))
            self._partitions[partition].note_damage()
        else:
            reason = f"cleaning failed: {named_error(error)}"
            logger.error("cleaning_failed", partition=partition, exc_info=error)
        self._set_aside(partition, reason)

    def _slice(self, partition: int, job: CleaningJob, seconds: float, now: float) -> bool:
        """Do what comes next in a partition; False: nothing does."""
        offset = job.machine.next_offset
        expires = self._may_expire() and job.expiry.is_wanted(offset, now)
        reclaims = job.graves.is_wanted(offset, now) and self._elements.has_any(now)
        if expires and not (reclaims and job.graves_next):
            self._expire(partition, job, seconds, now)
        elif reclaims:
            self._reclaim(partition, job, seconds, now)
        elif job.windows.is_wanted(offset, now):
            self._forget(partition, job, now)
        else:
            return False
        job.graves_next = not job.graves_next
        return True

    def _expire(self, partition: int, job: CleaningJob, seconds: float, now: float) -> None:
        offset = job.machine.next_offset
        began = perf_counter()
        swept = job.sweeper.expire(min(job.expiry.pace.units(seconds), self._settings.keys_max))
        took = perf_counter() - began
        fields = sum([number for _, _, number in swept.fields])
        gone = set(swept.keys)  # with all of their fields, however many
        if units := len(swept.keys) + sum([number for db, name, number in swept.fields if (db, name) not in gone]):
            job.expiry.pace.note(units, took)
            job.graves.look_again()
            job.is_flushed = False
        was_behind = job.expiry.is_behind
        job.expiry.done(offset, now + self._settings.interval_s, is_behind=swept.more)
        job.late_ms = job.machine.clock_ms - swept.due_ms if swept.more else 0
        if units:
            self._tell(partition, swept)
        if units or was_behind:  # nothing, where something was left: a FLUSHALL came between
            keys = len(gone - {(db, name) for db, name, _ in swept.fields})
            self._report(partition, job, Cleaned(keys=keys, fields=fields, seconds=took, expiry_due_ms=swept.due_ms))

    def _reclaim(self, partition: int, job: CleaningJob, seconds: float, now: float) -> None:
        offset = job.machine.next_offset
        units = job.graves.pace.units(seconds)
        began = perf_counter()
        reclaimed = job.reclaimer.reclaim(units)
        took = perf_counter() - began
        if reclaimed.more:
            job.graves.pace.note(units, took)
        was_behind = job.graves.is_behind
        job.graves.done(offset, now + self._settings.interval_s, is_behind=reclaimed.more)
        self._elements.take(reclaimed.records)
        if reclaimed.graves:
            job.is_flushed = False
        if reclaimed.graves or was_behind:
            grave_ms = parse_u64(read_cursor(job.store)) if reclaimed.more else 0
            done = Cleaned(graves=reclaimed.graves, elements=reclaimed.records, seconds=took, grave_ms=grave_ms)
            self._report(partition, job, done)

    def _forget(self, partition: int, job: CleaningJob, now: float) -> None:
        offset = job.machine.next_offset
        began = perf_counter()
        buckets, sessions, more = job.sweeper.forget()
        job.windows.done(offset, now + _FORGET_SECONDS, is_behind=more)
        if buckets or sessions:
            self._report(partition, job, Cleaned(forgotten=buckets + sessions, seconds=perf_counter() - began))

    def _report(self, partition: int, job: CleaningJob, cleaned: Cleaned) -> None:
        self._observer.cleaned(partition, cleaned._replace(ranges_waiting=job.ranges_waiting))
