"""Notifies systemd of a service with `Type=notify`: sd_notify(3), through the socket NOTIFY_SOCKET.

READY=1 once every owned partition is applied up to its lag bound, or is set aside: what is stopped or waits for
something is no start that goes on. Until then EXTEND_TIMEOUT_USEC, so that a long replay is no start that hangs.
WATCHDOG=1 comes from the event loop, as long as the loop that applies the log turns too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from sdnotify import SystemdNotifier

from ops.serving.health import PartitionHealth
from slotlog.wording import counted

_TELL_SECONDS: Final = 1.0
_EXTENSION_SECONDS: Final = 60
_STATUS_CHARS_MAX: Final = 400


class Watched(Protocol):
    """The health of a service, as systemd is told of it."""

    def stuck(self) -> str:
        """Why a restart is needed; empty while it is not."""
        ...

    def partitions(self) -> list[PartitionHealth]:
        """Every owned partition."""
        ...


async def supervise(health: Watched) -> None:
    """Tell systemd how the service is until cancelled; returns at once where systemd does not ask."""
    if "NOTIFY_SOCKET" not in os.environ:
        return
    notifier = SystemdNotifier(debug=False)  # a supervisor that cannot be told is no reason to end
    try:
        await _tell(health, notifier.notify, pause_seconds(os.environ, os.getpid()))
    finally:
        notifier.notify("STOPPING=1")
        if notifier.socket is not None:
            notifier.socket.close()


async def _tell(health: Watched, notify: Callable[[str], None], pause: float) -> None:
    started = False
    while True:
        lines = [f"STATUS={status(health)}"]
        if not started and not any(each.is_coming for each in health.partitions()):
            started = True
            lines.append("READY=1")
        if not started:
            lines.append(f"EXTEND_TIMEOUT_USEC={_EXTENSION_SECONDS * 1_000_000}")
        if not health.stuck():
            lines.append("WATCHDOG=1")
        # sdnotify encodes as Latin-1, and drops in silence what that has not; systemd expects UTF-8.
        notify("\n".join(lines).encode().decode("latin-1"))
        await asyncio.sleep(pause)


def pause_seconds(environment: Mapping[str, str], pid: int) -> float:
    """How often to tell: every second, or twice in WatchdogSec where that is sooner. WATCHDOG_PID may mean another."""
    watchdog = environment.get("WATCHDOG_USEC", "")
    if not watchdog.isdecimal() or environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return _TELL_SECONDS
    return min(_TELL_SECONDS, int(watchdog) / 2_000_000)


def status(health: Watched) -> str:
    """One line for `systemctl status`."""
    partitions = health.partitions()
    coming = [each for each in partitions if each.is_coming]
    amiss = [each for each in partitions if not each.ready and not each.is_coming]
    if amiss:
        reason = " ".join(amiss[0].reason.split())  # on one line: the next one would be another assignment
        return f"partition {amiss[0].partition} is {amiss[0].condition}: {reason}"[:_STATUS_CHARS_MAX]
    if coming:
        behind = sum(each.lag_events or 0 for each in coming)
        all_ = counted(len(partitions), "partition")
        return f"catching up with {len(coming)} of {all_}, {counted(behind, 'event')} behind"
    return f"{counted(len(partitions), 'partition')} applied"
