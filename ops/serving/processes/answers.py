"""The answers of several processes to HTTP, as those of one service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import chain
from time import monotonic
from typing import Any, Final

from ingest.reporting.observer import Condition
from ops.serving.health import PartitionHealth
from ops.serving.processes.exposition import joined
from ops.serving.processes.held_process import HeldProcess
from ops.serving.processes.shares import described
from slotlog.clock import now_ms
from slotlog.shared.slots import partition_of, slot

_LOOK_SECONDS: Final = 1.0
_SUMMED: Final = ("commands_per_second", "connected", "blocked", "subscribed")
_UNCOUNTED: Final = dict.fromkeys(
    (
        "next_offset",
        "clock_ms",
        "keys",
        "applied_events",
        "rejected_commands",
        "dead_letters",
        "disk_bytes",
        "snapshots",
    )
)


class Answers:
    """The answers of all processes, joined; the health, metrics and status of the service.

    Args:
        processes: by their number.

    Attributes:
        stopping: whether the service ends: then nothing is ready.
    """

    def __init__(self, processes: Sequence[HeldProcess]) -> None:
        self.stopping = False
        self._processes = processes
        self._began = monotonic()

    async def run(self) -> None:
        """Look again and again at all processes, until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        """Ask no more."""
        for process in self._processes:
            await process.close()

    async def _look(self) -> None:
        await asyncio.gather(*(process.look() for process in self._processes))

    # ------------------------------------------------------------------ health

    def stuck(self) -> str:
        """Why a restart is needed, as of the last look; empty while it is not."""
        return next((f"process {each.child.number}: {each.stuck}" for each in self._processes if each.stuck), "")

    def partitions(self) -> list[PartitionHealth]:
        """Every owned partition, as of the last look."""
        return [PartitionHealth(**each) for each in self._healths()]

    async def readiness(self) -> dict[str, Any]:
        """What `/readyz` answers: ready are all or none."""
        await self._look()
        known = [process.readiness for process in self._processes if process.readiness is not None]
        names = ("log", "disk", "clock", *(("group",) if self._processes[0].child.settings.group.name else ()))
        parts = {name: _worst([each[name] for each in known]) for name in names}
        warnings = dict.fromkeys(chain.from_iterable(each["log"]["warnings"] for each in known))
        return {
            "ready": not self.stopping and len(known) == len(self._processes) and all(each["ready"] for each in known),
            **parts,
            "log": {**parts["log"], "warnings": list(warnings)},
            "partitions": self._healths(),
        }

    def _healths(self) -> list[dict[str, Any]]:
        return sorted(
            chain.from_iterable(
                self._away(process) if process.readiness is None else process.readiness["partitions"]
                for process in self._processes
            ),
            key=lambda health: int(health["partition"]),
        )

    def _away(self, process: HeldProcess) -> list[dict[str, Any]]:
        """The partitions of a process that does not answer; in a group others take them, and say so."""
        if process.child.settings.group.name:
            return []
        what = "shuts down" if self.stopping else "starts" if process.starts < 2 else "is being started again"
        reason = f"process {process.child.number}, which has {described(process.child.settings)}, {what}"
        return [
            {
                "partition": each,
                "condition": str(Condition.OPENING),
                "ready": False,
                "lag_events": None,
                "reason": reason,
            }
            for each in process.child.settings.owned
        ]

    # ------------------------------------------------------------------ metrics and status

    async def exposition(self) -> bytes:
        """What `/metrics` answers."""
        texts = await asyncio.gather(*(process.body("/metrics") for process in self._processes))
        return joined(dict(enumerate(texts)))

    async def document(self) -> dict[str, Any]:
        """What `/status` answers: of the first process that does, with what all of them have counted."""
        readiness = await self.readiness()
        documents = await asyncio.gather(*(process.answer("/status") for process in self._processes))
        known = [document for document in documents if document is not None]
        if not known:
            return {}
        counted = {each["partition"]: each for document in known for each in document["partitions"]}
        letters = [document["dead_letters"] for document in known]
        return {
            **known[0],
            "now_ms": now_ms(),
            "uptime_seconds": round(monotonic() - self._began, 1),
            "worker": {**known[0]["worker"], "pid": os.getpid()},
            **{name: readiness[name] for name in ("ready", "log", "clock")},
            "disk": {**known[0]["disk"], **readiness["disk"]},
            "memory": _sums([document["memory"] for document in known], ("rss_bytes", "peak_bytes")),
            "partitions": [
                {**_UNCOUNTED, **counted.get(each["partition"], {}), **each} for each in readiness["partitions"]
            ],
            "history": all(document["history"] for document in known),
            "clients": _clients([document["clients"] for document in known]),
            "dead_letters": {**letters[0], "since_start": sum(each["since_start"] for each in letters)},
            "processes": [self._shown(process) for process in self._processes],
        }

    async def history(self, key: bytes, db: int) -> tuple[int, dict[str, Any]]:
        """The history of a key, from the process that has its partition; in a group another service's key, from any."""
        partition = partition_of(slot(key), self._processes[0].child.settings.partitions)
        owner = next((each for each in self._processes if partition in each.partitions), self._processes[0])
        answer = await owner.history(key, db)
        return answer or (503, {"error": f"process {owner.child.number} does not answer: try again later"})

    def _shown(self, process: HeldProcess) -> dict[str, Any]:
        settings = process.child.settings
        return {
            "process": process.child.number,
            "pid": process.pid,
            "partitions": process.partitions,
            "resp": settings.resp or None,
            "starts": process.starts,
        }


def _worst(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first that is not ready, else the first."""
    if not parts:
        return {"ready": False, "reason": "no process answers yet"}
    return next((part for part in parts if not part["ready"]), parts[0])


def _sums(parts: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    return {name: sum(part[name] for part in parts) for name in names}


def _clients(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Those of all processes, with the slower of their quantiles."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    slowest = {
        name: max((part[name] for part in known if part[name] is not None), default=None)
        for name in ("read_p99_seconds", "write_p99_seconds")
    }
    return {**_sums(known, _SUMMED), **slowest}
