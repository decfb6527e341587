"""Lets aiokafka's producer and consumer pause between questions for a leader that no broker can name.

The producer's sender with a batch, or the consumer's fetcher, that needs the leader of a partition which has none asks
for metadata, and again as soon as the answer is there or has failed. A broker that ends in order names no leader first,
and then refuses each connection at once: some 7,000 questions a second, until the batch is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

_PAUSE_SECONDS: Final = 0.1  # retry_backoff_ms of aiokafka, which waits so long between its other attempts


def pause_between_metadata(client: Any) -> None:
    """Let a client ask for metadata only some time after it got some that name no leader, or none.

    The pause comes before the question: topics that are added meanwhile are part of it. What is sent, and how often, is
    left as it is.

    Args:
        client: the `AIOKafkaClient` of a producer or consumer, before its start. It has no setting for this.
    """
    update = client._metadata_update  # noqa: SLF001 - the one place that all questions pass
    not_before = 0.0

    async def update_later(cluster: Any, topics: Iterable[str] | None) -> bool:
        nonlocal not_before
        if (seconds := not_before - monotonic()) > 0:
            await asyncio.sleep(seconds)
        updated: bool = await update(cluster, topics)
        not_before = 0.0 if updated and _have_leaders(cluster, topics) else monotonic() + _PAUSE_SECONDS
        return updated

    client._metadata_update = update_later  # noqa: SLF001 - as above


def _have_leaders(cluster: Any, topics: Iterable[str] | None) -> bool:
    """Whether each of the topics, of all if none is named, is known, and all its partitions have a leader."""
    for topic in topics or cluster.topics():
        known = cluster.partitions_for_topic(topic)
        if not known or known != cluster.available_partitions_for_topic(topic):
            return False
    return True
