"""Takes records out of what aiokafka's consumer has fetched ahead, without an object of the consumer for each.

The consumer goes on to fetch, to follow leaders and to keep positions. Only its last step is done here: its `getmany`
makes a `ConsumerRecord` of each record, which costs 1 us, and more than all else that a record costs. As with `getmany`
and `read_committed` the position goes on behind what is left out (`batches.py`).
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import FetchResult
from aiokafka.protocol.fetch import FetchRequest

from slotlog.log.kafka.batches import Batches, Piece
from slotlog.log.log import Headers, LogRecord


class _Tap:
    """The client of a consumer's fetcher, through which the fetcher's requests go, with the bytes that came last.

    aiokafka's objects for what was fetched do not give them.

    Attributes:
        fetched: the offset that was asked for and what came, by partition.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.fetched: dict[TopicPartition, tuple[int, bytes]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, node: int, request: Any) -> Any:
        """Send it, and keep what was fetched."""
        response = await self._client.send(node, request)
        if isinstance(request, FetchRequest):
            asked = {(topic, each[0]): each[1] for topic, partitions in request.topics for each in partitions}
            for topic, partitions in response.topics:
                for partition, *_, fetched in partitions:
                    self.fetched[TopicPartition(topic, partition)] = asked[topic, partition], fetched
        return response


class _Begun(NamedTuple):
    """What was begun of the fetched records of a partition."""

    fetch: Any
    batches: Batches


_NOTHING: Final = Piece([], [], 0)


class Unpacker:
    """The records of one started consumer, for one task at a time.

    Args:
        consumer: one that checks CRCs and reads what is committed, and has fetched nothing yet. Nobody else may take
            records from it.

    Attributes:
        headers: of the records that `get` gave last, of those that have some, by partition and offset.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._fetcher: Any = consumer._fetcher
        self._coordinator: Any = consumer._coordinator
        self._tap = self._fetcher._client = _Tap(self._fetcher._client)
        self._begun: dict[TopicPartition, _Begun] = {}
        self._left: dict[TopicPartition, Piece] = {}  # what was read of them, and not taken
        self.headers: dict[tuple[int, int], Headers] = {}

    async def get(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """What was fetched ahead, or comes within `wait_ms`, by partition: at most `records_max` records in all.

        Raises:
            Exception: as `getmany`. The positions of partitions may have moved: seek all of them then.
        """
        ends_at = monotonic() + wait_ms / 1000
        self.headers = {}
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

    def _drain(self, records_max: int) -> dict[int, list[LogRecord]]:
        taken: dict[int, list[LogRecord]] = {}
        for tp, result in [*self._fetcher._records.items()]:
            if not isinstance(result, FetchResult):
                if taken:
                    break  # it comes again at the next call
                self._forget(tp)
                result.check_raise()
            records = self._take(tp, result, records_max)
            if records:
                taken[tp.partition] = records
                records_max -= len(records)
                if not records_max:
                    break
        return taken

    def _take(self, tp: TopicPartition, result: FetchResult, records_max: int) -> list[LogRecord]:
        """Records of one partition, up to the end of what was fetched of it or `records_max`."""
        fetch: Any = result._partition_records
        if fetch is None or not result.check_assignment(tp):  # paused, or sought elsewhere
            self._forget(tp)
            return []
        begun = self._begun.get(tp)
        if begun is None or begun.fetch is not fetch:
            begun = self._begun[tp] = _Begun(fetch, Batches(fetch, self._bytes_of(tp, fetch.next_fetch_offset)))
            self._left.pop(tp, None)
        piece = self._left.pop(tp, _NOTHING)
        taken: list[LogRecord] = []
        try:
            while len(taken) < records_max:
                room = records_max - len(taken)
                if not piece.records:
                    following = begun.batches.next_piece(room)
                    if following is None:
                        self._forget(tp)
                        break
                    piece = following
                if piece.headers:
                    self.headers |= {(tp.partition, offset): headers for offset, headers in piece.headers}
                taken += piece.records[:room]
                piece = piece._replace(records=piece.records[room:])
                fetch.next_fetch_offset = taken[-1][0] + 1 if piece.records else piece.next_offset
        except BaseException:
            self._forget(tp)
            raise
        result._update_position()
        if piece.records:
            self._left[tp] = piece
        return taken

    def _bytes_of(self, tp: TopicPartition, offset: int) -> bytes | None:
        """What was fetched of a partition from `offset` on, if it is at hand."""
        asked, fetched = self._tap.fetched.pop(tp, (-1, None))
        return fetched if asked == offset else None

    def _forget(self, tp: TopicPartition) -> None:
        """Let the consumer fetch more of this partition, from its position on."""
        self._begun.pop(tp, None)
        self._left.pop(tp, None)
        del self._fetcher._records[tp]
        self._fetcher._notify(self._fetcher._wait_consume_future)
