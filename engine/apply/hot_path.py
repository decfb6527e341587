"""Gives the hot path in C what it needs of a machine."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Protocol

from engine import native
from engine.apply.executor import Executor
from engine.apply.records import Applied, Record
from engine.batch.in_memory.overlay import CACHED_BYTES_MAX
from engine.batch.keys.key import Key
from engine.batch.overlaid import Subkeys
from engine.batch.ranks import rank_counts
from engine.batch.ranks.rank_records import RankCounts, RankHolders, Stretches
from engine.batch.transaction import Transaction
from engine.limits import DEDUP_WINDOW_MS
from engine.tables.dedup import Deduplicator
from engine.tables.system import Home
from engine.values.numbers import parse_double
from engine.values.replies import OK
from slotlog.shared.limits import TIME_MS_MAX


class Run(Iterator[Record], Protocol):
    """Applies the usual records of one batch, and gives all others, in their order."""

    def at_hand(self, offset: int, name: bytes, /) -> tuple[int, bytes]:
        """Offset and name of the record that has failed here; those that are given if none did."""
        ...

    def end(self, offset: int, /) -> tuple[int, int]:
        """How many records were applied here, and `offset` or that of the last of them if it is greater."""
        ...


class HotPath(Protocol):
    """The hot path of one machine."""

    def others(self, records: Sequence[Record], applied: Applied, waiting: Container[int], /) -> Run:
        """A run through the records of one call of `Machine.apply`."""
        ...


def hot_path(
    tx: Transaction, executor: Executor, dedup: Deduplicator, home: Home, overlay_bytes_max: int
) -> HotPath | None:
    """The hot path over a transaction, what runs its records, and idempotency keys; None: Python does all of it.

    `overlay_bytes_max`: a batch ends behind the record with which `Transaction.value_bytes` is more.
    """
    module = native.chosen()
    loading = tx.loading
    if module is None or loading is None:
        return None
    module.configure(Key(0, b"", b""), Subkeys, Transaction, RankCounts, Stretches, RankHolders)
    path: HotPath = module.Path(
        tx=tx,
        executor=executor,
        dedup=dedup,
        new_ids=dedup.new,
        get_id=dedup.get,
        **loading._asdict(),
        ok=OK,
        parse_double=parse_double,
        time_max=TIME_MS_MAX,
        overlay_bytes_max=overlay_bytes_max,
        window_ms=DEDUP_WINDOW_MS,
        cached_bytes_max=CACHED_BYTES_MAX,
        plain_size_max=rank_counts.PLAIN_SIZE_MAX,
        partition=home.partition,
        partitions=home.partitions,
        block_max=rank_counts.BLOCK_MAX,
        group_max=rank_counts.GROUP_MAX,
    )
    return path
