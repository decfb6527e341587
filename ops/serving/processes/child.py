"""One process of a service: begins, runs, tells why it could not, ends with the process that started it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Final

import structlog

from engine.errors import CorruptionError, StateMismatchError
from ops.config import ConfigError, Settings
from slotlog.errors import LogMismatchError, LogUnavailableError

PERMANENT: Final = (ConfigError, StateMismatchError, LogMismatchError)
"""Why a process does not start, and would not the next time either."""

_REFUSALS: Final = (*PERMANENT, CorruptionError, LogUnavailableError, OSError)
"""Why it ends by itself; `ops.serving.service.Service.run` names them."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of a service, as it is told at its start.

    Attributes:
        number: from 0, among the processes of the service; its log lines have it.
        settings: its own.
        http_socket: the Unix socket at which it is asked for its health, metrics and status.
        json: whether its log lines are JSON; None: if stderr is no terminal.
    """

    number: int
    settings: Settings
    http_socket: Path
    json: bool | None

    def run(self, refusals: Connection) -> None:
        """Serve until a signal comes. What keeps it from that goes to `refusals`, and ends it with exit code 1."""
        import uvloop  # noqa: PLC0415 - here, as what imports this module has no need of it

        from ops.logging import configure_logging  # noqa: PLC0415 - the same
        from ops.serving.process import tune_collector  # noqa: PLC0415 - the same
        from ops.serving.service import Service  # noqa: PLC0415 - the same

        Thread(target=_end_with_parent, daemon=True).start()
        tune_collector()
        os.environ.pop("NOTIFY_SOCKET", None)  # systemd hears of the service as a whole
        configure_logging(self.settings.log_level, json=self.json)
        structlog.contextvars.bind_contextvars(process=self.number)

        async def serve() -> None:
            await Service(self.settings, self.http_socket).run()

        try:
            uvloop.run(serve())
        except _REFUSALS as error:
            with suppress(OSError):  # nobody is left who would hear it
                refusals.send(error)
            sys.exit(1)


def _end_with_parent() -> None:
    """End at once with the process that started this one, if it is killed: its next start needs the ports."""
    parent = parent_process()
    assert parent is not None, "this is a child"
    parent.join()
    os._exit(1)
