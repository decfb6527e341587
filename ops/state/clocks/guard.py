"""Guards a service's wall clock: its limits, an operator's decisions, what a restart remembers.

DATA/clock.json has the newest moment at which the wall clock was right, beside the clock since the machine's boot: a
service that is started again while the wall clock is wrong finds out by it. DATA/clock-agreed is an operator's word
that the wall clock is right (`slotlog clock agree`); it is taken away once read. DATA/retime-PARTITION-OFFSET.json is
one on the times of records from that offset on (`slotlog clock set`, `accept`): a running service takes it into its
state, and a replay finds it when there is no state any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Final

import structlog

from engine.tables.system import Retimes
from ingest.applying.partitions.owned_partition import OwnedPartition
from ops.config import ConfigError, Settings
from slotlog.clock import WALL

KEPT_FILE: Final = "clock.json"
_LOOK_SECONDS: Final = 1.0
_KEEP_SECONDS: Final = 60.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

logger = structlog.get_logger(__name__)


def bound_clock(settings: Settings) -> None:
    """Let the wall clock of this process know its bounds."""
    WALL.ahead_max_ms = int(settings.clock_ahead_max_s * 1000)
    WALL.move_max_ms = int(settings.clock_move_max_s * 1000)


class ClockGuard:
    """Looks after the wall clock of a service."""

    def __init__(self, settings: Settings) -> None:
        bound_clock(settings)
        self._kept = settings.data / KEPT_FILE
        self._agreed = agreement(settings.data)
        self._keep_at = 0.0
        self._trouble = self._lead = ""
        self._partitions: Mapping[int, OwnedPartition] = {}
        self._ahead: dict[int, int] = {}

    def begin(self) -> None:
        """Go on from where an earlier service on this data, since the same boot, saw the wall clock right."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # none yet, or not whole: a new beginning
            kept = json.loads(self._kept.read_bytes())
            if _boot_id() and kept["boot_id"] == _boot_id():
                WALL.expect((int(kept["boot_ms"]), int(kept["offset_ms"])))
        self.look()

    def watch(self, partitions: Mapping[int, OwnedPartition]) -> None:
        """Tell of the clocks of these partitions as well, where they are ahead."""
        self._partitions = partitions

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Take what an operator has said, tell of a change, and keep a mark for the next start."""
        self._take_agreement()
        trouble = WALL.trouble()
        if trouble and not self._trouble:
            logger.error("wall_clock_moved", moved_seconds=WALL.moved_ms() / 1000, reason=trouble, appends="refused")
        elif self._trouble and not trouble:
            logger.warning("wall_clock_right_again", appends="taken")
        self._trouble = trouble
        self._tell_of_lead()
        ahead = clocks_ahead(self._partitions)
        for partition in ahead.keys() - self._ahead.keys():
            seconds = ahead[partition] / 1000
            logger.warning(
                "log_time_ahead", partition=partition, seconds=seconds, hint=f"slotlog clock set {partition}"
            )
        self._ahead = ahead
        if not trouble and monotonic() >= self._keep_at:
            self._keep_at = monotonic() + _KEEP_SECONDS
            self._keep()

    def _tell_of_lead(self) -> None:
        lead = lead_of_wall_clock()
        if lead and not self._lead:
            logger.warning("wall_clock_ahead", lead_seconds=WALL.lead_ms / 1000, reads="by the log's clock")
        elif self._lead and not lead:
            logger.warning("wall_clock_as_the_log", reads="by the wall clock")
        self._lead = lead

    def _take_agreement(self) -> None:
        if not self._agreed.exists():
            return
        moved_ms = WALL.moved_ms()
        if moved_ms:
            WALL.agree()
            self._keep_at = 0.0
        logger.warning("wall_clock_agreed", moved_seconds=moved_ms / 1000)
        self._agreed.unlink(missing_ok=True)

    def _keep(self) -> None:
        boot_ms, offset_ms = WALL.mark()
        text = json.dumps({"boot_id": _boot_id(), "boot_ms": boot_ms, "offset_ms": offset_ms})
        new = self._kept.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk is said elsewhere; the next start begins anew
            new.write_text(text)
            new.replace(self._kept)


def agreement(data: Path) -> Path:
    """The file by which an operator agrees with the wall clock."""
    return data / "clock-agreed"


async def agree(data: Path, seconds: float = 5.0) -> None:
    """Tell the service on `data` that the wall clock is right, and wait until it has heard.

    Raises:
        ConfigError: no service has taken it.
    """
    file = agreement(data)
    _leave(file)
    until = monotonic() + seconds
    while file.exists():
        if monotonic() > until:
            file.unlink(missing_ok=True)
            raise ConfigError(f"no service runs on {data}: one that starts asks again if it has to")
        await asyncio.sleep(_LOOK_SECONDS / 10)


def decide(data: Path, partition: int, begin: int, end: int, time_ms: int) -> None:
    """Keep an operator's decision: no record of `partition` from offset `begin` to before `end` has a later time."""
    file = data / f"retime-{partition}-{begin}.json"
    new = file.with_suffix(".new")
    with new.open("w") as text:
        json.dump([begin, end, time_ms], text)
        text.flush()
        os.fsync(text.fileno())
    new.replace(file)


def decided(data: Path, partition: int) -> Retimes:
    """What operators have decided on the times of a partition's records."""
    files = data.glob(f"retime-{partition}-*.json")
    return tuple(
        sorted((begin, end, time_ms) for begin, end, time_ms in (json.loads(file.read_text()) for file in files))
    )


def clocks_ahead(partitions: Mapping[int, OwnedPartition]) -> dict[int, int]:
    """The partitions whose clock is too far ahead of the wall clock, and how far, in ms."""
    now_ms = WALL.now_ms()
    clocks = {
        partition: owned.committed.clock_ms - now_ms for partition, owned in partitions.items() if owned.committed
    }
    return {partition: ahead_ms for partition, ahead_ms in clocks.items() if ahead_ms > WALL.ahead_max_ms}


def lead_of_wall_clock() -> str:
    """What is said while the wall clock of this machine is ahead of the one that gives records their times."""
    if not WALL.lead_ms:
        return ""
    return (
        f"the wall clock of this machine is {WALL.lead_ms / 1000:.0f} s ahead of the log's: keys live by the log's, "
        "and reads go by it; set it right"
    )


def latest_ms() -> int:
    """The latest time that a record may have now to be applied."""
    return WALL.now_ms() + WALL.ahead_max_ms


def _leave(file: Path) -> None:
    if not file.parent.is_dir():
        raise ConfigError(f"{file.parent} is no directory of a service")
    file.touch(mode=0o600)


def _boot_id() -> str:
    """Which boot of the machine this is; empty where that is not told."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
