"""Finds dead letters in Kafka and sends them again. See `ingest.dead_letters.finding`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from heapq import nlargest, nsmallest
from itertools import pairwise
from typing import Final, NamedTuple

from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.found import PAGE_BYTES_MAX, Again, Found, Summary, Wanted, Went
from ingest.dead_letters.kafka_store import KafkaDeadLetters
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.outgoing import Outgoing
from slotlog.log.log import check_entries

HEADER: Final = "slotlog.redrive"
_CLOCKS_MS: Final = 2 * 3600 * 1000
"""So far the clocks of producers, workers and brokers may be apart; what a broker takes is an hour ahead at most."""
_GAP_MAX: Final = 1000
"""Records of the topic that are read and passed by, to fetch what stands on both sides of them at once."""
_WAIT_MS: Final = 500
_MARK: Final = re.compile(r"redriven to partition (\d+), offset (\d+)")

Place = tuple[int, int]
"""Partition and offset of a dead letter in its log."""


class _At(NamedTuple):
    """Where a dead letter stands in the topic, the first time, and how many bytes it has."""

    offset: int
    size: int


class KafkaDeadLetterSearch:
    """Searches the dead letters in the dead-letter topic.

    Its order is that of arrival. So for letters by their positions it is read from its begin, except for one alone:
    that was stored after its record came into the log, and the topic is read from that time on.

    Args:
        log: the log that the dead letters are from.
        dead_letters: its dead-letter topic.
    """

    def __init__(self, log: KafkaLog, dead_letters: KafkaDeadLetters) -> None:
        self._log = log
        self._dead_letters = dead_letters
        self._at: dict[Place, _At] = {}
        self._marks: dict[Place, Went] = {}
        self._looked_from = self._looked_to = -1

    async def newest(self, dead_letters_max: int) -> list[Summary]:
        """From the end of the topic, twice as far back each time, until there are enough."""
        begin, end = await self._dead_letters.bounds()
        back = 2 * dead_letters_max
        while True:
            start = max(begin, end - back)
            found: dict[tuple[int, int], Summary] = {}
            async with aclosing(self._dead_letters.since(start)) as dead_letters:
                async for _, dead_letter in dead_letters:
                    place = dead_letter.partition, dead_letter.offset
                    went = _mark_of(dead_letter)
                    if went is None:
                        known = found.get(place)
                        found[place] = Found(dead_letter, known and known.redriven).summary
                    elif place in found:
                        found[place] = found[place]._replace(redriven=went)
            if len(found) >= dead_letters_max or start == begin:
                return nlargest(dead_letters_max, found.values(), key=lambda each: (each.time_ms, each.offset))
            back *= 2

    async def page(self, wanted: Wanted, after: tuple[int, int] = (-1, -1), dead_letters_max: int = 500) -> list[Found]:
        """The topic is read once, to know what stands where, and from then on its new end; then the letters alone."""
        begin, _ = await self._dead_letters.bounds()
        await self._look(max(begin, await self._stored_from(wanted)))
        places = self._chosen(wanted, after, dead_letters_max)
        if not places and self._looked_from > begin:  # clocks that differ by more than we think
            await self._look(begin)
            places = self._chosen(wanted, after, dead_letters_max)
        dead_letters = await self._read(places)
        return [Found(dead_letters[place], self._marks.get(place)) for place in places if place in dead_letters]

    async def send(self, batch: Sequence[Again]) -> list[Went | None]:
        """One append, then the marks. After a crash between the two, a dead letter's `id` tells its copy in the log."""
        check_entries([again.entry for again in batch], self._log.partitions)
        positions = await self._log.send([_outgoing(again) for again in batch])
        went = [Went(position.partition, position.offset) for position in positions]
        await self.mark([(again.dead_letter, to) for again, to in zip(batch, went, strict=True)])
        return list(went)

    async def mark(self, sent: Sequence[tuple[DeadLetter, Went]]) -> None:
        """One more record for each in the dead-letter topic."""
        await self._dead_letters.store([_mark(dead_letter, went) for dead_letter, went in sent])

    # ------------------------------------------------------------------ what stands where

    async def _look(self, start: int) -> None:
        """Learn what the topic holds from `start`, or before, to its present end."""
        if self._looked_from < 0 or start < self._looked_from:
            self._at, self._marks = {}, {}
            self._looked_from = self._looked_to = start
        async with aclosing(self._dead_letters.since(self._looked_to)) as dead_letters:
            async for at, dead_letter in dead_letters:
                place = dead_letter.partition, dead_letter.offset
                went = _mark_of(dead_letter)
                if went is not None:
                    self._marks[place] = went
                elif place not in self._at:
                    self._at[place] = _At(at, _size(dead_letter))
                self._looked_to = at + 1

    async def _stored_from(self, wanted: Wanted) -> int:
        """Before which offset of the topic no letter can stand that is wanted; 0 where that takes the whole topic."""
        partition, offset = wanted.partition, wanted.first_offset
        if partition is None or offset != wanted.last_offset or partition >= self._log.partitions:
            return 0
        time_ms = await self._time_of(partition, offset)
        return 0 if time_ms is None else await self._dead_letters.offset_at(time_ms - _CLOCKS_MS) or 0

    async def _time_of(self, partition: int, offset: int) -> int | None:
        """The time of a record of the log; None if it is not there."""
        if not await self._log.begin_offset(partition) <= offset < await self._log.end_offset(partition):
            return None
        reader = self._log.reader({partition: offset})
        try:
            while reader.position(partition) <= offset:
                for record in (await reader.fetch(_WAIT_MS, 1)).get(partition, ()):
                    return record[1] if record[0] == offset else None
        finally:
            await reader.close()
        return None

    def _chosen(self, wanted: Wanted, after: Place, dead_letters_max: int) -> list[Place]:
        """The first of the wanted dead letters, by position, as far as they fit into a page."""
        page: list[Place] = []
        size = 0
        for place in nsmallest(dead_letters_max, (each for each in self._at if each > after and wanted.has(*each))):
            size += self._at[place].size
            if page and size > PAGE_BYTES_MAX:
                break
            page.append(place)
        return page

    async def _read(self, places: list[Place]) -> dict[Place, DeadLetter]:
        """Those dead letters, from as few stretches of the topic as they stand in."""
        offsets = sorted(self._at[place].offset for place in places)
        wanted = set(offsets)
        starts = [at for before, at in pairwise([-_GAP_MAX - 1, *offsets]) if at - before > _GAP_MAX]
        found: dict[Place, DeadLetter] = {}
        for start, following in pairwise([*starts, offsets[-1] + 1] if offsets else ()):
            end = max(at for at in offsets if at < following) + 1
            async with aclosing(self._dead_letters.since(start, end)) as dead_letters:
                found |= {(each.partition, each.offset): each async for at, each in dead_letters if at in wanted}
        return found


def _outgoing(again: Again) -> Outgoing:
    dead_letter, entry = again
    origin = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}".encode()
    return Outgoing(entry.partition, entry.key, entry.value, None, (*dead_letter.headers, (HEADER, origin)))


def _mark(dead_letter: DeadLetter, went: Went) -> DeadLetter:
    reason = f"redriven to partition {went.partition}, offset {went.offset}"
    return dead_letter._replace(reason=reason, key=None, value=None, headers=())


def _mark_of(dead_letter: DeadLetter) -> Went | None:
    """Where a mark says that its letter went; None for a dead letter. No reason of a dead letter is such a text."""
    match = _MARK.fullmatch(dead_letter.reason)
    return None if match is None else Went(int(match[1]), int(match[2]))


def _size(dead_letter: DeadLetter) -> int:
    return len(dead_letter.key or b"") + len(dead_letter.value or b"")
