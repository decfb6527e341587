"""Asks a process beside the service about the past; it begins with the first question, and ends when none comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Final

import structlog

from engine.errors import CommandError
from engine.values.replies import Reply, unpack
from ops.config import Settings
from ops.past.answering import IndexMore, Question, answer_all
from ops.snapshots.child import readable
from ops.snapshots.scratch import remove_abandoned

logger = structlog.get_logger(__name__)

QUESTIONS_MAX: Final = 64
"""That wait at a time."""

IDLE_SECONDS: Final = 300.0

_TOO_MANY: Final = CommandError(
    f"ERR {QUESTIONS_MAX} reads of the past wait already; nothing was read: try again later"
)
_ENDED: Final = CommandError("ERR the process that reads the past was ended from outside, for its memory perhaps")


class PastProcess:
    """Answers about the past of a service's partitions, from one process, which keeps states for following questions.

    Args:
        settings: of the service.
        idle_seconds: after which it ends, and what it keeps is removed.
    """

    def __init__(self, settings: Settings, idle_seconds: float = IDLE_SECONDS) -> None:
        self._settings = settings
        self._idle_seconds = idle_seconds
        self._turn = asyncio.Lock()
        self._asked = 0
        self._running: tuple[BaseProcess, Connection] | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, question: Question) -> Reply:
        """The answer, once those before are answered. Who is cancelled meanwhile ends the process.

        Raises:
            CommandError: it cannot be answered, or too many wait.
        """
        if self._asked >= QUESTIONS_MAX:
            raise _TOO_MANY
        self._asked += 1
        try:
            async with self._turn:
                reply = unpack(await self._answer(question))
        finally:
            self._asked -= 1
        if isinstance(reply, CommandError):
            raise reply
        return reply

    async def keep_index(self, partitions: Mapping[int, object]) -> None:
        """Add what is new to the index of offsets, as often as the settings say, until cancelled.

        Args:
            partitions: the owned ones; they may change.
        """
        while seconds := self._settings.past.index_seconds:
            for partition in sorted(partitions):
                try:
                    while await self.ask(IndexMore(partition)):
                        pass
                except CommandError as error:
                    logger.warning("past_not_indexed", partition=partition, error=error.message)
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """End the process. What it keeps is removed when it has ended."""
        if self._idle is not None:
            self._idle.cancel()
        if self._running is not None:
            process, connection = self._running
            self._running = None
            process.kill()
            Thread(target=_clear, args=(process, connection, self._settings.data)).start()

    async def _answer(self, question: Question) -> bytes:
        if self._idle is not None:
            self._idle.cancel()
        try:
            if self._running is None:
                self._running = await asyncio.to_thread(_begin, self._settings)
            connection = self._running[1]
            connection.send(question)
            await readable(connection)
            answer = await asyncio.to_thread(connection.recv_bytes)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.close()
            raise _ENDED from None
        except BaseException:
            self.close()
            raise
        self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self.close)
        return answer


def _begin(settings: Settings) -> tuple[BaseProcess, Connection]:
    context = get_context("spawn")  # RocksDB's threads are none that a fork could take along
    ours, theirs = context.Pipe()
    process = context.Process(target=answer_all, args=(theirs, settings), daemon=True)
    with theirs:
        process.start()
    return process, ours


def _clear(process: BaseProcess, connection: Connection, data: Path) -> None:
    process.join()
    connection.close()
    remove_abandoned(data)
