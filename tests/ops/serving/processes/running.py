"""A service of two processes, started by its command line."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, wait_until
from tests.real.process import free_row

PARTITIONS = 4


class Service(ServiceProcess):
    """`slotlog serve --processes 2` with four partitions, on two ports in a row.

    Attributes:
        port: of the first process; the other one has the next.
        data: the directory of its state.
    """

    def __init__(self, data: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None) -> None:
        self.port, self.data = free_row(2), data
        given = ["--data", str(data), "--http", "127.0.0.1:0", "--resp", f"127.0.0.1:{self.port}"]
        numbers = ["--partitions", str(PARTITIONS), "--processes", "2"]
        super().__init__([*given, *numbers, *options], environment)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self.lives:  # which have its log open, so that it would never end
            os.kill(pid, signal.SIGKILL)
        super().__exit__(kind, error, trace)

    def wait_until_ready(self) -> None:
        """Until `/readyz` says that all is applied."""
        if not any(line["event"] == "http" for line in self.seen):
            self.wait_for("http")
        wait_until(lambda: get(self, "/readyz").status == 200, "the service to be ready")

    @property
    def processes(self) -> list[dict[str, Any]]:
        """What `/status` says of each process."""
        shown: list[dict[str, Any]] = get(self, "/status").json["processes"]
        return shown

    def kill_process(self, number: int) -> int:
        """SIGKILL to one of the processes; its id."""
        pid: int = self.processes[number]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    @property
    def lives(self) -> list[int]:
        """The ids of the processes that were started and have not ended."""
        started = [line["pid"] for line in self.seen if line["event"] == "process_started"]
        return [pid for pid in started if Path(f"/proc/{pid}").exists()]
