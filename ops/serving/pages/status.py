"""`/status`: the state of a service in one document. docs/operations.md explains its fields.

No key, value or client address is in the document: reasons that repeat words of an event are cut, and a dead letter is
told by its position, time and size.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

from engine.errors import CorruptionError
from ingest.applying.partitions.owned_partition import OwnedPartition
from ingest.dead_letters.found import DeadLetterSearch, Summary
from ops.addresses import parse_address
from ops.metrics.counts import PartitionCounts
from ops.reasons import shown_reason
from ops.serving.keeping.snapshot_status import snapshot_status
from ops.serving.pages.recent import RecentQuantile
from ops.serving.running import Running
from ops.version import VERSION
from resp.resources.memory import memory_use
from resp.server import Server
from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError, LogUnavailableError

_LETTERS_SHOWN: Final = 20
_LETTERS_SECONDS: Final = 30.0  # read again after this time also when none has come: `redrive` marks them
_LETTERS_WAIT_SECONDS: Final = 1.0
_MEASURED_AT_ONCE: Final = 8
_QUANTILE: Final = 0.99
_BEYOND_SECONDS: Final = 60.0
_SAME_SECONDS: Final = 0.5  # however many look at the page: the document is made twice a second at most


class StatusDocument:
    """Makes the document.

    Args:
        service: whose status it is.
        readiness: what `/readyz` answers.
        search: finds the dead letters of its log.
        shows_history: whether the page may ask for histories now.
    """

    def __init__(
        self,
        service: Running,
        readiness: Callable[[], Awaitable[dict[str, Any]]],
        search: DeadLetterSearch,
        shows_history: Callable[[], bool],
    ) -> None:
        self._shows_history = shows_history
        self._service = service
        self._readiness = readiness
        self._search = search
        self._started = monotonic()
        self._made: dict[str, Any] = {}
        self._made_at = -_SAME_SECONDS
        self._keys: dict[int, int] = {}  # these two as they were when the partition was open last
        self._bytes: dict[int, int] = {}
        self._measured: deque[int] = deque(service.settings.owned)
        self._latest: list[Summary] | None = None
        self._latest_error = ""
        self._latest_count = -1
        self._latest_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._reads = self._writes = None
        if service.resp is not None:
            self._reads = RecentQuantile(service.resp.stats.request_seconds, _QUANTILE)
            self._writes = RecentQuantile(service.resp.stats.write_seconds, _QUANTILE)

    async def close(self) -> None:
        """Ask no more for dead letters."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def document(self) -> dict[str, Any]:
        """What `/status` answers; docs/operations.md names the fields."""
        await self._look_for_letters()
        readiness = await self._readiness()
        now = monotonic()
        if now - self._made_at >= _SAME_SECONDS:
            self._made, self._made_at = self._make(now, readiness), now
        return self._made

    def _make(self, now: float, readiness: dict[str, Any]) -> dict[str, Any]:
        service = self._service
        self._measure()
        disk = shutil.disk_usage(service.settings.data)
        return {
            "version": VERSION,
            "topic": service.settings.topic,
            "partitions_of_topic": service.settings.partitions,
            "now_ms": now_ms(),
            "uptime_seconds": round(now - self._started, 1),
            "worker": self._worker(),
            "peers": _peers(service.resp),
            "ready": readiness["ready"],
            "log": readiness["log"],
            "clock": readiness["clock"],
            "log_bytes": self._service.log.stored_bytes,
            "disk": {**readiness["disk"], "free_bytes": disk.free, "total_bytes": disk.total},
            "memory": {"rss_bytes": memory_use().rss_bytes, "peak_bytes": memory_use().peak_bytes},
            "partitions": [
                {
                    **health,
                    "reason": shown_reason(health["reason"]),
                    **self._counts(health["partition"], service.consumer.partitions[health["partition"]]),
                    "snapshots": self._snapshots(health["partition"]),
                }
                for health in readiness["partitions"]
            ],
            "clients": self._clients(now),
            "dead_letters": self._dead_letters(),
            "history": self._shows_history(),
        }

    def _measure(self) -> None:
        """Ask for bytes: all partitions at first, then some in turn, as each takes 0.3 ms of the event loop."""
        owned = len(self._measured)
        for _ in range(min(owned, max(_MEASURED_AT_ONCE, owned // 16)) if self._bytes else owned):
            self._measured.rotate(-1)
            partition = self._measured[-1]
            worker = self._service.consumer.partitions[partition].worker
            if worker.is_open:
                self._bytes[partition] = worker.store.stored_bytes()

    def _counts(self, partition: int, owned: OwnedPartition) -> dict[str, int | None]:
        worker, position = owned.worker, owned.committed
        counts = self._service.metrics.counts.get(partition) or PartitionCounts()
        if worker.is_open:
            self._keys[partition] = sum(worker.machine.key_counts.values())
        return {
            "next_offset": None if position is None else position.next_offset,
            "clock_ms": None if position is None else position.clock_ms,
            "keys": self._keys.get(partition),
            "applied_events": counts.applied,
            "rejected_commands": counts.rejected,
            "dead_letters": counts.dead,
            "disk_bytes": self._bytes.get(partition),
        }

    def _snapshots(self, partition: int) -> dict[str, Any] | None:
        """Of one partition; None where no store of snapshots is named."""
        service = self._service
        if not service.settings.snapshots.url:
            return None
        return snapshot_status(service.reports[partition], service.consumer.partitions[partition])

    def _worker(self) -> dict[str, Any]:
        """Which process this is, among those of its topic."""
        service = self._service
        resp = service.resp
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "node": None if resp is None else resp.cluster.me.node_id,
            "resp": None if resp is None else _address(resp, service.settings.resp),
            "log": service.log.url,
        }

    def _clients(self, now: float) -> dict[str, int | float | None] | None:
        resp = self._service.resp
        if resp is None or self._reads is None or self._writes is None:
            return None
        return {
            "commands_per_second": resp.stats.operations_per_second,
            "read_p99_seconds": _finite(self._reads.at(now)),
            "write_p99_seconds": _finite(self._writes.at(now)),
            "connected": len(resp.sessions),
            "blocked": len(resp.blocked.waiters),
            "subscribed": sum(session.is_subscriber for session in resp.sessions.values()),
        }

    # ------------------------------------------------------------------ dead letters

    def _dead_letters(self) -> dict[str, Any]:
        latest = self._latest
        return {
            "since_start": self._dead_count(),
            "error": self._latest_error,
            "latest": None if latest is None else [_shown_letter(letter) for letter in latest],
        }

    def _dead_count(self) -> int:
        return sum(counts.dead for counts in self._service.metrics.counts.values())

    async def _look_for_letters(self) -> None:
        """Read the latest when there may be others than those known; whoever asks waits a moment for them at most."""
        count = self._dead_count()
        stale = count != self._latest_count or monotonic() - self._latest_at > _LETTERS_SECONDS
        if self._reading is None or (self._reading.done() and stale):
            self._reading = asyncio.create_task(self._read_letters(count))
        await asyncio.wait((self._reading,), timeout=_LETTERS_WAIT_SECONDS)

    async def _read_letters(self, count: int) -> None:
        try:
            self._latest = await self._search.newest(_LETTERS_SHOWN)
            self._latest_error = ""
        except (LogUnavailableError, LogMismatchError, CorruptionError):
            self._latest_error = "the place of the dead letters cannot be read"
        self._latest_count, self._latest_at = count, monotonic()


def _address(resp: Server, listening: str) -> str:
    """Where clients reach it: as they are told, else where it listens."""
    host = resp.cluster.me.host or parse_address(listening)[0]
    return f"[{host}]:{resp.port}" if ":" in host else f"{host}:{resp.port}"


def _finite(seconds: float | None) -> float | None:
    """Seconds for JSON, which has no infinity: beyond the last bound is as long as a minute."""
    return None if seconds is None else min(seconds, _BEYOND_SECONDS)


def _peers(resp: Server | None) -> list[dict[str, Any]]:
    """The other workers of the topic that this one knows, and how they look from here."""
    if resp is None:
        return []
    return [
        {
            "address": f"{node.host}:{node.port}",
            "node": node.node_id,
            "partitions": list(node.partitions),
            "health": str(resp.bus.peers.seen(node).health),
        }
        for node in resp.cluster.nodes
        if node is not resp.cluster.me
    ]


def _shown_letter(letter: Summary) -> dict[str, Any]:
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time_ms": letter.time_ms,
        "reason": shown_reason(letter.reason),
        "bytes": letter.size,
        "redriven": letter.redriven is not None,
    }
