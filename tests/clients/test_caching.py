"""redis-py's client-side cache, on slotlog alone: it asks what the server is, and refuses one called valkey."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import redis
from redis.cache import CacheConfig

from slotlog import SyncProducer, open_log
from tests.clients.scenario import CACHED
from tests.wire.servers import slotlog

KEY: Final = "key"
PATIENCE_S: Final = 60


def test_client_with_a_cache(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The cache learns of what other clients write, of its own client's writes, and of a producer's events on Kafka."""
    log = f"kafka://{kafka_bootstrap}"
    with (
        slotlog(tmp_path, log) as server,
        redis.Redis(port=server.address[1], protocol=3, decode_responses=True, cache_config=CacheConfig()) as client,
        redis.Redis(port=server.address[1]) as other,
        SyncProducer(lambda: open_log(log, topic=f"resp-{tmp_path.name}", partitions=1)) as producer,
    ):
        other.set(KEY, "1")
        seen: dict[str, Any] = {"read": client.get(KEY)}
        calls = _calls_of_get(other)
        seen["kept"] = [client.get(KEY), _calls_of_get(other) == calls]
        other.set(KEY, "2")
        seen["changed"] = _read_until(client, "2")
        client.set(KEY, "3")
        seen["own"] = _read_until(client, "3")
        producer.send("SET", KEY, "4")
        seen["sent"] = _read_until(client, "4")
        other.delete(KEY)
        seen["deleted"] = _read_until(client, None)

    assert CACHED | {"sent": "4"} == seen


def _calls_of_get(client: Any) -> int:
    """How many GETs the server has run."""
    calls: int = client.info("commandstats")["cmdstat_get"]["calls"]
    return calls


def _read_until(client: Any, wanted: str | None) -> str | None:
    """What the client reads, at last: its cache is told of a change in its own time."""
    ends = time.monotonic() + PATIENCE_S
    while (value := client.get(KEY)) != wanted and time.monotonic() < ends:
        time.sleep(0.001)
    found: str | None = value
    return found
