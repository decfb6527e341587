"""A process of a service, as the one that started it sees it: started, asked, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector

from ingest.reporting.observer import Condition
from ops.serving.processes.child import Child

_ASK_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 120.0
"""As systemd's watchdog of a single process, in deploy/systemd/slotlog.service."""


class HeldProcess:
    """One process, which is started again and again.

    Attributes:
        child: what it is told.
        starts: how often it was started.
        was_open: whether it has opened its partitions once since the service began.
        readiness: its last answer to `/readyz`; None: it has not answered, or not the last time.
        stuck: why it needs a restart, as it said last or because it says nothing; empty if it does not.
    """

    def __init__(self, child: Child) -> None:
        self.child = child
        self.starts = 0
        self.was_open = False
        self.readiness: dict[str, Any] | None = None
        self.stuck = ""
        self._heard_at = monotonic()
        self._process: SpawnProcess | None = None
        self._refusals: Connection | None = None
        self._session: ClientSession | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs; None: none does."""
        return None if self._process is None else self._process.pid

    @property
    def partitions(self) -> list[int]:
        """Its partitions; in a group those that it said to apply."""
        if not self.child.settings.group.name:
            return self.child.settings.owned
        return [] if self.readiness is None else [each["partition"] for each in self.readiness["partitions"]]

    def start(self) -> None:
        """Start it. OSError when the machine has no room for another process."""
        context = get_context("spawn")  # RocksDB's threads are none that a fork could take along
        self._refusals, refusals = context.Pipe(duplex=False)
        process = context.Process(target=self.child.run, args=(refusals,), name=f"slotlog-{self.child.number}")
        process.start()
        refusals.close()
        self._process, self._heard_at = process, monotonic()
        self.starts += 1

    async def ended(self) -> int:
        """Wait for its end. The exit code; below zero the signal that ended it."""
        process = self._process
        assert process is not None, "started"
        loop, has_ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process.sentinel, has_ended.set)
        try:
            await has_ended.wait()
        finally:
            loop.remove_reader(process.sentinel)
        process.join()
        self._process, self.readiness, self.stuck = None, None, ""
        return process.exitcode or 0

    def refusal(self) -> Exception | None:
        """Why it has ended by itself; None: it did not say."""
        assert self._refusals is not None, "started"
        try:
            error: Exception | None = self._refusals.recv() if self._refusals.poll() else None
        except EOFError:
            return None
        else:
            return error
        finally:
            self._refusals.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, number)

    # ------------------------------------------------------------------ questions

    async def look(self) -> None:
        """Ask how it is, if it runs."""
        process = self._process
        live, readiness = await self.answer("/livez"), await self.answer("/readyz")
        if process is None or process is not self._process:  # the answers, or that there were none, are of no process
            return
        self.readiness = readiness
        if live is not None:
            self._heard_at = monotonic()
        seconds = monotonic() - self._heard_at
        silent = f"it has not answered for {seconds:.0f} s" if seconds > _SILENT_SECONDS else ""
        self.stuck = silent if live is None else live.get("reason", "")
        if self.readiness is not None:
            conditions = [each["condition"] for each in self.readiness["partitions"]]
            self.was_open |= str(Condition.OPENING) not in conditions

    async def answer(self, path: str) -> Any:
        """The JSON document at `path`; None: it does not answer."""
        body = await self.body(path)
        return None if body is None else json.loads(body)

    async def body(self, path: str) -> bytes | None:
        """What it answers at `path`; None: it does not answer."""
        try:
            async with self._client().get(f"http://slotlog{path}") as response:
                return await response.read()
        except (ClientError, TimeoutError):
            return None

    async def history(self, key: bytes, db: int) -> tuple[int, dict[str, Any]] | None:
        """What it answers to the page's question for a history (`pages/http_history.py`); None: it does not.

        However long that takes: the log may have to be read.
        """
        body, patient = {"key": key.decode(errors="surrogateescape"), "db": db}, ClientTimeout(connect=_ASK_SECONDS)
        try:
            async with self._client().post("http://slotlog/history", json=body, timeout=patient) as response:
                return response.status, await response.json()
        except (ClientError, TimeoutError):
            return None

    def _client(self) -> ClientSession:
        if self._session is None:
            connector = UnixConnector(str(self.child.http_socket), force_close=True)
            self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=_ASK_SECONDS))
        return self._session

    async def close(self) -> None:
        """Ask no more."""
        if self._session is not None:
            await self._session.close()
