"""Letters in Kafka by their positions, though their topic is in the order of their arrival."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from ingest.dead_letters import kafka_store
from ingest.dead_letters.dead_letter import DeadLetter
from ingest.dead_letters.found import Wanted, Went
from ingest.dead_letters.kafka_finding import KafkaDeadLetterSearch
from ops.config import load_settings
from ops.dead_letters.resend import opened
from slotlog.clock import now_ms
from slotlog.log import Entry, Headers, LogRecord
from tests.ops.dead_letters.dead import PARTITIONS, letter, place_at


async def test_one_letter_is_found_without_reading_all(
    tmp_path: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for from its record's time on, and from the topic's begin only if it is not there; with its mark."""
    read: list[int] = []
    decoded = kafka_store._to_letter

    def noted(record: LogRecord, headers: Headers) -> DeadLetter | None:
        read.append(record[0])
        return decoded(record, headers)

    monkeypatch.setattr(kafka_store, "_to_letter", noted)
    monkeypatch.setattr("ingest.dead_letters.kafka_finding._CLOCKS_MS", 0)
    place = await asyncio.to_thread(place_at, f"kafka://{kafka_bootstrap}", f"dead-{uuid4().hex}", tmp_path)
    async with opened(load_settings(log=place.url, topic=place.topic, partitions=PARTITIONS)) as (log, letters):
        assert isinstance(letters, KafkaDeadLetterSearch)
        await letters._dead_letters.store([letter(place, 0, offset, b"\xc1") for offset in range(1000, 1100)])
        stored_ms = now_ms()
        while now_ms() == stored_ms:
            pass  # for a millisecond: the next record is a later one
        ((_, offset, _),) = await log.append([Entry(0, None, b"\xc1")])
        await letters._dead_letters.store([letter(place, 0, offset, b"\xc1"), letter(place, 1, 7, b"\xc1")])
        (found,) = await letters.page(Wanted(0, offset, offset))
        await letters.mark([(found.dead_letter, Went(1, 5))])
        near, read[:] = list(read), []
        (again,) = await letters.page(Wanted(0, offset, offset))
        (far,) = await letters.page(Wanted(0, 1050, 1050))
        everything = await letters.page(Wanted())

    assert [100, 101, 100] == near
    assert (None, Went(1, 5)) == (found.redriven, again.redriven)
    assert (offset, 1050) == (again.dead_letter.offset, far.dead_letter.offset)
    assert [102, 100] == read[:2]
    assert list(range(103)) == read[2:105]  # this one has no record in the log
    assert [50] == read[105:106]
    assert list(range(102)) == read[106:]
    assert [(0, offset), *((0, each) for each in range(1000, 1100)), (1, 7)] == [
        each.dead_letter[1:3] for each in everything
    ]


async def test_a_letter_from_a_clock_that_is_wrong_is_found(
    tmp_path: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record's time may lie behind the moment when it was put aside: then the whole topic is read after all."""
    # as if the record was an hour younger
    monkeypatch.setattr("ingest.dead_letters.kafka_finding._CLOCKS_MS", -3_600_000)
    place = await asyncio.to_thread(place_at, f"kafka://{kafka_bootstrap}", f"dead-{uuid4().hex}", tmp_path)
    async with opened(load_settings(log=place.url, topic=place.topic, partitions=PARTITIONS)) as (_, letters):
        assert isinstance(letters, KafkaDeadLetterSearch)
        await letters._dead_letters.store([letter(place, 0, 0, b"\xc1")])
        (found,) = await letters.page(Wanted(0, 0, 0))
        none = await letters.page(Wanted(0, 1, 1))

    assert ((0, 0), []) == (found.dead_letter[1:3], none)
