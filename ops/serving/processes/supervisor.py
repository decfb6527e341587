"""Starts the processes of a service, starts those again that end, and ends all of them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic
from typing import Final, NoReturn

import structlog

from ops.config import ConfigError, Settings
from ops.serving.pages.http import start_http
from ops.serving.processes.answers import Answers
from ops.serving.processes.child import PERMANENT, Child
from ops.serving.processes.held_process import HeldProcess
from ops.serving.processes.shares import described, shares
from ops.serving.systemd import supervise
from ops.state.opening.directories import prepare_data
from slotlog.shared.shown_errors import shown_error

_END_SECONDS: Final = 30.0
"""A process that has not ended so long after SIGTERM is killed: it ends within ten by itself."""

_STUCK_LOOK_SECONDS: Final = 1.0
_SOUND_SECONDS: Final = 60.0
_PAUSE_MIN_SECONDS: Final = 0.5
_PAUSE_MAX_SECONDS: Final = 30.0

logger = structlog.get_logger(__name__)


class Supervisor:
    """One service of several processes.

    `run` returns after SIGTERM or SIGINT, or when a process has ended because it was asked to.

    Args:
        settings: of the service.
        json: whether log lines are JSON; None: if stderr is no terminal.
    """

    def __init__(self, settings: Settings, *, json: bool | None = None) -> None:
        self._settings = settings
        self._json = json
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until stopped.

        Raises:
            ConfigError, StateMismatchError, LogMismatchError, LogUnavailableError, OSError: a process cannot start.
        """
        parts = shares(self._settings)
        prepare_data(self._settings)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop.set)
        with TemporaryDirectory(prefix="slotlog-", dir=_parent_of_sockets(self._settings.data)) as sockets:
            children = [
                Child(number, part, Path(sockets) / f"{number}.sock", self._json) for number, part in enumerate(parts)
            ]
            await self._run([HeldProcess(child) for child in children])

    async def _run(self, processes: list[HeldProcess]) -> None:
        answers = Answers(processes)
        http = None
        if self._settings.http:
            http = await start_http(self._settings, answers.exposition, answers, answers, answers.history)
        jobs = (answers.run(), supervise(answers), self._end_stuck(processes))
        beside = [asyncio.create_task(job) for job in jobs]
        keeping = [asyncio.create_task(self._keep(process)) for process in processes]
        ended: list[asyncio.Task[None]] = []
        for task in keeping:
            task.add_done_callback(ended.append)
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((*keeping, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stop.set()
            answers.stopping = True
            await self._end(processes, keeping)
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            if http is not None:
                await http.close()
            await answers.close()
        kept = dict(zip(keeping, processes, strict=True))
        if refusals := [(kept[each], error) for each in ended if (error := each.exception()) is not None]:
            _raise_first(refusals)
        logger.info("stopped")

    async def _end(self, processes: list[HeldProcess], keeping: list[asyncio.Task[None]]) -> None:
        """End all processes, and wait for them."""
        for name, patience in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, None)):
            for process in processes:
                process.signal(name)
            _, left = await asyncio.wait(keeping, timeout=patience)
            if not left:
                return

    async def _end_stuck(self, processes: list[HeldProcess]) -> None:
        """Kill each process that needs a restart, until cancelled: whoever keeps it starts it again."""
        while True:
            for process in processes:
                if process.stuck:
                    logger.error("process_stuck", process=process.child.number, reason=process.stuck)
                    process.stuck = ""
                    process.signal(signal.SIGKILL)
            await asyncio.sleep(_STUCK_LOOK_SECONDS)

    async def _keep(self, process: HeldProcess) -> None:
        """Start a process, and start it again whenever it ends, until the service ends.

        Raises:
            ConfigError, StateMismatchError, LogMismatchError, LogUnavailableError, OSError: it cannot start, and would
                not the next time; or it could not the first time.
        """
        number, pause = process.child.number, 0.0
        while not self._stop.is_set():
            process.start()
            began = monotonic()
            own = process.partitions
            logger.info("process_started", process=number, pid=process.pid, own=own, starts=process.starts)
            code = await process.ended()
            refusal = process.refusal()
            if self._stop.is_set() and not refusal:
                return
            if code == 0:
                logger.info("process_ended", process=number)
                self._stop.set()
                return
            if refusal is not None and (isinstance(refusal, PERMANENT) or not process.was_open):
                raise refusal
            if code > 0 and not process.was_open:
                raise ConfigError(
                    f"process {number}, which has {described(process.child.settings)}, has ended with exit code {code}"
                    " before it was open: its log lines say why"
                )
            pause = (
                0.0
                if monotonic() - began > _SOUND_SECONDS
                else min(_PAUSE_MAX_SECONDS, 2 * pause or _PAUSE_MIN_SECONDS)
            )
            reason = str(refusal) if refusal is not None else _ending(code)
            logger.error("process_ended", process=number, own=own, reason=reason, again_in_seconds=pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()


def _raise_first(refusals: Sequence[tuple[HeldProcess, BaseException]]) -> NoReturn:
    """Raise the first of the errors that have ended processes. The log gets the others that say something else."""
    (_, first), *others = refusals
    for process, error in others:
        if str(error) != str(first):
            own = process.partitions
            logger.error("process_ended", process=process.child.number, own=own, reason=shown_error(error))
    raise first


def _parent_of_sockets(data: Path) -> str:
    """Where sockets may be: rather not in the data directory, as the path of a socket has 107 bytes at most."""
    try:
        return gettempdir()
    except FileNotFoundError:  # all else may be read-only, as in a container
        return str(data)


def _ending(code: int) -> str:
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
