"""Rebuild a state from the start of the log, up to its end, an offset or a time, into a fresh directory.

The write-ahead log is off meanwhile (a crash would start again anyway), so the directory counts as a state only when
every column family was flushed and the marker `REPLAYING` is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.digest import Digest
from engine.store.rocks import RocksStore
from engine.system import skip_changes
from ingest.consumer import Consumer
from ingest.log import Log, open_log
from ingest.observer import NullObserver
from ingest.worker import Worker
from ops.config import ConfigError, Settings
from ops.progress import progress
from ops.state import (
    REPLAYING,
    cached_keys_max,
    digest_partition,
    home_of,
    partition_path,
    reading,
    refuse_unfinished,
    store_opener,
)


@dataclass(frozen=True, slots=True)
class Until:
    """Where a replay ends: before an offset, before the first record at or after a time, or at the log's end."""

    offset: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one partition came to.

    `live_digest` is that of the state it may be compared with; None when that is not at the same position.
    """

    partition: int
    next_offset: int
    clock_ms: int
    digest: Digest
    live_digest: Digest | None


async def replay(
    settings: Settings, to: Path, until: Until, skips: Sequence[tuple[int, int]] = (), *, records_max: int = 1000
) -> list[Replayed]:
    """Rebuild every partition into `to`.

    Args:
        settings: the log, and the live state to compare with.
        to: a directory that is empty or not there.
        until: where to end.
        skips: (partition, offset) of records that an operator decided to go past.
        records_max: size of a batch; the result is the same with any.

    Raises:
        ConfigError: `to` is not empty, or the log no longer begins at 0.
    """
    _refuse_used(to)
    log = open_log(
        settings.log_url, topic=settings.topic, partitions=settings.partitions, kafka=settings.kafka, create=False
    )
    await log.start()
    try:
        ends = await _ends(log, until)
        _begin(to)
        await _replay_to(settings, log, to, ends, skips, records_max)
    finally:
        await log.close()
    (to / REPLAYING).unlink()
    return [_compare(settings, to, partition) for partition in sorted(ends)]


def _refuse_used(to: Path) -> None:
    refuse_unfinished(to)
    if to.exists() and any(to.iterdir()):
        raise ConfigError(f"{to} is not empty; a replay needs a directory of its own")


def _begin(to: Path) -> None:
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    (to / REPLAYING).touch()


async def _ends(log: Log, until: Until) -> dict[int, int]:
    ends = {}
    for partition in range(log.partitions):
        begin = await log.begin_offset(partition)
        if begin > 0:
            raise ConfigError(
                f"partition {partition} of the log begins at offset {begin}: what was before is gone, so the state"
                " cannot be rebuilt from it; restore the log"
            )
        end = await log.end_offset(partition)
        if until.offset is not None:
            end = min(end, until.offset)
        if until.time_ms is not None:
            at = await log.offset_at(partition, until.time_ms)
            end = min(end, end if at is None else at)
        ends[partition] = end
    return ends


async def _replay_to(
    settings: Settings, log: Log, to: Path, ends: Mapping[int, int], skips: Sequence[tuple[int, int]], records_max: int
) -> None:
    open_store = store_opener(settings, to, wal=False)
    for partition, offset in skips:
        store = open_store(partition)
        store.write(skip_changes(offset))
        if isinstance(store, RocksStore):
            store.flush_all()
        store.close()
    workers = {
        partition: Worker(
            home_of(settings, partition),
            log,
            open_store,
            None,
            NullObserver(),
            records_max=records_max,
            cached_keys_max=cached_keys_max(settings),
        )
        for partition in ends
    }
    consumer = Consumer(log, workers, NullObserver())
    await consumer.open()
    try:
        with progress("replay", sum(ends.values()), "events") as advance:
            await consumer.run_to(ends, lambda: advance(sum(worker.machine.next_offset for worker in workers.values())))
        for worker in workers.values():
            if isinstance(worker.store, RocksStore):
                worker.store.flush_all()
    finally:
        consumer.close()


def _compare(settings: Settings, to: Path, partition: int) -> Replayed:
    result, position = digest_partition(settings.model_copy(update={"data": to}), partition)
    live = None
    if partition_path(settings.data, partition).is_dir():
        with reading(settings, partition) as (_, machine):
            as_far = machine.position.next_offset == position.next_offset
        if as_far:
            live, live_position = digest_partition(settings, partition)
            live = live if live_position.next_offset == position.next_offset else None  # a service may have gone on
    return Replayed(partition, position.next_offset, position.clock_ms, result, live)
