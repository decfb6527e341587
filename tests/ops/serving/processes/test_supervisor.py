"""A process of a service that ends: it is started again, or the service ends with it."""

from __future__ import annotations

import asyncio
import gc
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.errors import CorruptionError, StateMismatchError
from ops.config import ConfigError, Settings
from ops.serving.processes import supervisor
from ops.serving.processes.child import Child
from ops.serving.processes.held_process import HeldProcess
from ops.serving.processes.supervisor import Supervisor

End = int | Exception


class Ending(HeldProcess):
    """A process that ends at once, each time as a test says: with an exit code, or with an error and exit code 1."""

    def __init__(self, ends: list[End], *, was_open: bool) -> None:
        super().__init__(Child(0, Settings(own="0"), Path("none"), None))
        self.ends = ends
        self.was_open = was_open
        self.after_seconds = 0.0
        self.signals: list[signal.Signals] = []

    def start(self) -> None:
        """Count it."""
        self.starts += 1

    def signal(self, number: signal.Signals) -> None:
        """Note it."""
        self.signals.append(number)

    async def ended(self) -> int:
        """The next end."""
        await asyncio.sleep(self.after_seconds)
        end = self.ends[self.starts - 1]
        return end if isinstance(end, int) else 1

    def refusal(self) -> Exception | None:
        """The error of this end."""
        end = self.ends[self.starts - 1]
        return None if isinstance(end, int) else end


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of what they are."""
    monkeypatch.setattr(supervisor, "_STUCK_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "_PAUSE_MIN_SECONDS", 0.005)
    monkeypatch.setattr(supervisor, "_PAUSE_MAX_SECONDS", 0.02)


async def kept(*ends: End, was_open: bool) -> tuple[int, list[tuple[str, float]]]:
    """How often a process with these ends was started, and what was said of the ends after which it was."""
    process = Ending(list(ends), was_open=was_open)
    with capture_logs() as lines:
        await Supervisor(Settings())._keep(process)
    return process.starts, [(line["reason"], line["again_in_seconds"]) for line in lines if "reason" in line]


async def test_a_process_that_crashes_is_started_again_after_longer_pauses() -> None:
    """Pauses double up to the longest; exit code 0 is an end that was asked for, and ends it."""
    crash = -signal.SIGSEGV
    text = "it was ended by SIGSEGV"

    assert (5, [(text, 0.005), (text, 0.01), (text, 0.02), (text, 0.02)]) == await kept(*[crash] * 4, 0, was_open=True)


async def test_a_signal_ends_no_start() -> None:
    """A process that was killed before it was open is started again: it was its machine that ended it."""
    assert (2, [("it was ended by SIGKILL", 0.005)]) == await kept(-signal.SIGKILL, 0, was_open=False)


async def test_an_error_that_may_pass_is_tried_again_once_it_was_open() -> None:
    """After the first start an error that time may mend, or an exit code of no known error, ends nobody else."""
    said = [("blocks are damaged", 0.005), ("it ended with exit code 3", 0.01)]

    assert (3, said) == await kept(CorruptionError("blocks are damaged"), 3, 0, was_open=True)


@pytest.mark.parametrize("was_open", [True, False])
async def test_an_error_that_stays_ends_the_service(was_open: bool) -> None:
    """A state of something else is one tomorrow, too: the service ends with that error, whenever it comes."""
    with pytest.raises(StateMismatchError, match="another topic"):
        await kept(-signal.SIGKILL, StateMismatchError("another topic"), was_open=was_open)


async def test_a_process_that_is_stuck_is_killed_once() -> None:
    """It gets SIGKILL, the log says why, and the others get none."""
    processes = [Ending([], was_open=True) for _ in range(2)]
    processes[1].stuck = "its loop has not turned"
    with capture_logs() as lines, suppress(TimeoutError):
        await asyncio.wait_for(Supervisor(Settings())._end_stuck(list(processes)), 0.05)

    assert [[], [signal.SIGKILL]] == [process.signals for process in processes]
    assert ["its loop has not turned"] == [line["reason"] for line in lines]


def test_sockets_have_a_place_where_all_else_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the processes' sockets is a temporary one; where none can be written, it is in the data."""
    found = supervisor._parent_of_sockets(tmp_path)

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory")

    monkeypatch.setattr(supervisor, "gettempdir", nowhere)

    assert (tempfile.gettempdir(), str(tmp_path)) == (found, supervisor._parent_of_sockets(tmp_path))


async def test_any_error_before_it_was_open_ends_the_service() -> None:
    """At its first start a process is held to what `slotlog serve` alone would do: an error ends it."""
    with pytest.raises(OSError, match="no room"):
        await kept(OSError("no room"), was_open=False)
    with pytest.raises(ConfigError, match="process 0, which has partition 0, has ended with exit code 3"):
        await kept(3, was_open=False)


@pytest.mark.parametrize(("other", "said"), [("it is open", []), ("the port is taken", ["the port is taken"])])
async def test_all_that_processes_refuse_is_said_once(other: str, said: list[str]) -> None:
    """Of two refusals the first in time ends the service, and a line has the other one unless it says the same."""
    processes = [Ending([ConfigError(other)], was_open=False), Ending([BlockingIOError("it is open")], was_open=False)]
    processes[0].after_seconds = 0.05
    unread: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context["message"]))
    with capture_logs() as lines, pytest.raises(BlockingIOError, match="it is open"):
        await Supervisor(Settings(http=""))._run(list(processes))
    gc.collect()

    assert [] == unread
    assert said == [line["reason"] for line in lines if line["event"] == "process_ended"]
