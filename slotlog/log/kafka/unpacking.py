"""Takes records out of what aiokafka's consumer has fetched ahead, without an object of the consumer for each.

The consumer goes on to fetch, to follow leaders and to keep positions. Only its last step is done here: its `getmany`
makes a `ConsumerRecord` of each record, which costs 1 us, and more than all else that a record costs. What comes out
are the records of its parser, which have the same `offset`, `timestamp`, `key`, `value` and `headers`.

As with `getmany` and `read_committed`, each batch is held against its CRC, and those of aborted transactions and the
markers at the end of transactions are left out. The position goes on behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, islice
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException


class Unpacker:
    """The records of one started consumer, for one task at a time.

    Args:
        consumer: one that checks CRCs and reads what is committed. Nobody else may take records from it.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._fetcher: Any = consumer._fetcher
        self._coordinator: Any = consumer._coordinator
        # What was begun of the fetched records of a partition: these, the batch, and the rest of its records.
        self._begun: dict[TopicPartition, tuple[PartitionRecords, Any, Iterator[Any]]] = {}

    async def get(self, wait_ms: int, records_max: int) -> dict[TopicPartition, list[Any]]:
        """What was fetched ahead, or comes within `wait_ms`: at most `records_max` records in all.

        Raises:
            Exception: as `getmany`. The positions of partitions may have moved: seek all of them then.
        """
        ends_at = monotonic() + wait_ms / 1000
        while True:
            self._coordinator.check_errors()
            taken = self._drain(records_max)
            left = ends_at - monotonic()
            if taken or left <= 0 or self._fetcher._closed:
                return taken
            waiter = self._fetcher._create_fetch_waiter()
            try:
                await asyncio.wait((waiter,), timeout=left)
                if waiter.done():
                    waiter.result()
            finally:
                waiter.cancel()

    def _drain(self, records_max: int) -> dict[TopicPartition, list[Any]]:
        taken: dict[TopicPartition, list[Any]] = {}
        for tp, result in [*self._fetcher._records.items()]:
            if not isinstance(result, FetchResult):
                if taken:
                    break  # it comes again at the next call
                self._forget(tp)
                result.check_raise()
            records = self._take(tp, result, records_max)
            if records:
                taken[tp] = records
                records_max -= len(records)
                if not records_max:
                    break
        return taken

    def _take(self, tp: TopicPartition, result: FetchResult, records_max: int) -> list[Any]:
        """Records of one partition, up to the end of what was fetched of it or `records_max`."""
        unpacked: PartitionRecords | None = result._partition_records
        if unpacked is None or not result.check_assignment(tp):  # paused, or sought elsewhere
            self._forget(tp)
            return []
        taken: list[Any] = []
        begun = self._begun.pop(tp, None)
        _, batch, records = begun if begun is not None and begun[0] is unpacked else (None, None, iter(()))
        try:
            while len(taken) < records_max:
                room = records_max - len(taken)
                found = list(islice(records, room))
                ended = len(found) < room
                if found and found[0].offset < unpacked.next_fetch_offset:  # a broker gives whole batches
                    found = [record for record in found if record.offset >= unpacked.next_fetch_offset]
                if found:
                    taken += found
                    unpacked.next_fetch_offset = found[-1].offset + 1
                if ended:
                    if batch is not None:
                        unpacked.next_fetch_offset = batch.next_offset
                    batch = _next_batch(tp, unpacked)
                    if batch is None:
                        break
                    records = chain(batch)  # asks the batch for its iterator once, which it gives once
        except BaseException:
            self._forget(tp)
            raise
        result._update_position()
        if batch is None:
            self._forget(tp)
        else:
            self._begun[tp] = unpacked, batch, records
        return taken

    def _forget(self, tp: TopicPartition) -> None:
        """Let the consumer fetch more of this partition, from its position on."""
        del self._fetcher._records[tp]
        self._fetcher._notify(self._fetcher._wait_consume_future)


def _next_batch(tp: TopicPartition, unpacked: PartitionRecords) -> Any:
    """The next batch whose records are to be given, None at the end.

    Raises:
        CorruptRecordException: its CRC is another one.
    """
    batches, aborted = unpacked._records, unpacked._aborted_producers
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {tp}")
        producer, is_marker = batch.producer_id, batch.is_control_batch
        if producer is not None:  # None: written before Kafka had transactions
            unpacked._consume_aborted_up_to(batch.base_offset)
            if is_marker and unpacked._contains_abort_marker(batch):
                aborted.discard(producer)
        if not is_marker and not (batch.is_transactional and producer in aborted):
            return batch
        unpacked.next_fetch_offset = batch.next_offset
    return None
