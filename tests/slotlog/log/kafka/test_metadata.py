"""While a partition has no leader, metadata are asked for with pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata

from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.metadata import pause_between_metadata
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.log.kafka.test_recovery import metadata
from tests.slotlog.log.reading import append

FETCH_MS = 2500


async def ask_append(log: KafkaLog) -> None:
    """Over the producer."""
    await append(log, b"a")


async def ask_records(log: KafkaLog) -> None:
    """Over the consumer that reads."""
    await log.reader({0: 0}).fetch(FETCH_MS, 1)


@pytest.mark.parametrize("ask", [ask_append, ask_records])
async def test_a_leader_is_asked_for_in_peace(
    make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch, ask: Callable[[KafkaLog], Coroutine[Any, Any, None]]
) -> None:
    """While a partition has no leader, metadata are asked for some ten times a second, and it goes on afterwards."""
    asked: list[bool] = []
    update = AIOKafkaClient._metadata_update

    async def counted(client: AIOKafkaClient, cluster: ClusterMetadata, topics: set[str]) -> bool:
        asked.append(await update(client, cluster, topics))
        return asked[-1]

    def nobody(_: ClusterMetadata, answer: Any) -> None:
        answer.topics = [
            (code, name, internal, [(error, number, -1, *rest) for error, number, _, *rest in partitions])
            for code, name, internal, partitions in answer.topics
        ]

    monkeypatch.setattr(AIOKafkaClient, "_metadata_update", counted)
    log = make_log()
    await log.start()
    with metadata(nobody):
        asking = asyncio.create_task(ask(log))
        await asyncio.sleep(2)
        questions = len(asked)
        assert 5 < questions < 30
    await asking


@pytest.mark.parametrize(
    ("updated", "topics", "is_paused"),
    [
        (True, {"led"}, False),
        (True, set(), True),
        (False, {"led"}, True),
        (True, {"led", "part"}, True),
        (True, {"unknown"}, True),
    ],
)
async def test_pauses_between_metadata(updated: bool, topics: set[str], is_paused: bool) -> None:
    """After metadata that could not be had, or that name no leader of a partition, the next are asked for later."""
    led: dict[str, list[set[int] | None]] = {"led": [{0, 1}] * 2, "part": [{0, 1}, {0}], "unknown": [None, None]}
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: led[topic][0],
        available_partitions_for_topic=lambda topic: led[topic][1],
        topics=lambda: {"led", "part"},
    )

    async def update(_cluster: Any, _topics: set[str]) -> bool:
        return updated

    client = SimpleNamespace(_metadata_update=update)
    pause_between_metadata(client)
    began = monotonic()
    assert [updated] * 3 == [await client._metadata_update(cluster, topics) for _ in range(3)]

    assert is_paused == (monotonic() - began >= 0.19)
