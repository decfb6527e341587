"""A replay in processes that is killed while one partition is whole already and the other is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.errors import CorruptionError
from engine.layouts import LAYOUTS
from engine.layouts.records import column_families
from engine.store.rocks import RocksStore
from engine.tables.system import is_replaying
from ops.config import load_settings
from ops.state.opening.directories import home_of
from slotlog.shared.slots import partition_of, slot
from tests.ops.verbs import run, succeed, wait_until, write_lines

PARTITIONS = 2
LONG = "local n = 0 for i = 1, 3000000 do n = n + i end return redis.call('INCR', KEYS[1])"
"""Some hundredths of a second: hundreds of them are not done before the kill, however slow the test is."""


def key_of(partition: int) -> str:
    """A key of the partition."""
    return next(f"k{n}" for n in range(100) if partition_of(slot(b"k%d" % n), PARTITIONS) == partition)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose partition 0 is applied in a moment, and partition 1 in a minute."""
    directory = tmp_path_factory.mktemp("log")
    events: list[dict[str, Any]] = [{"cmd": "INCR", "args": [key_of(0)]}]
    events += [{"cmd": "EVAL", "args": [LONG, 1, key_of(1)]}] * 1000
    lines = write_lines(directory / "events", events)
    succeed("produce", lines, "--data", directory / "data", "--partitions", PARTITIONS)
    return directory / "data"


def is_whole(to: Path) -> bool:
    """Whether partition 0 alone would be a state: all is applied, and its own mark is gone."""
    settings = load_settings(partitions=PARTITIONS)
    families = column_families(LAYOUTS[settings.layout])
    with suppress(OSError, CorruptionError), closing(RocksStore(to / "0", families, read_only=True)) as store:
        return not is_replaying(store) and Machine(store, home_of(settings, 0)).next_offset == 1
    return False


def is_begun(to: Path) -> bool:
    """Whether the directory of partition 1 says that a replay builds it."""
    families = column_families(LAYOUTS[load_settings(partitions=PARTITIONS).layout])
    with suppress(OSError, CorruptionError), closing(RocksStore(to / "1", families, read_only=True)) as store:
        return is_replaying(store)
    return False


def builder_of(process: subprocess.Popen[str], directory: Path) -> int | None:
    """The process of the command that has a partition open."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        with suppress(OSError):
            if any(file.readlink().parent == directory for file in Path(f"/proc/{child}/fd").iterdir()):
                return int(child)
    return None


@pytest.mark.parametrize("victim", ["command", "builder"])
def test_a_whole_partition_does_not_count_alone(victim: str, data: Path, tmp_path: Path) -> None:
    """After kill -9 of the command, or of a process of it, no partition can be opened and no process is left.

    The same command begins anew, and has what it would have had.
    """
    to = tmp_path / "to"
    words = ["replay", "--data", str(data), "--partitions", str(PARTITIONS), "--to", str(to), "--processes", "2"]
    process = subprocess.Popen([sys.executable, "-m", "ops.cli", *words], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_whole(to), "partition 0 to be whole")
        wait_until(lambda: is_begun(to) and builder_of(process, to / "1") is not None, "partition 1 to be begun")
        builder = builder_of(process, to / "1")
        assert builder is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(process.pid if victim == "command" else builder, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "its processes to end")
    finally:
        process.kill()
        process.communicate()

    assert {"command": -9, "builder": 1}[victim] == process.returncode
    for partition in range(PARTITIONS):
        assert "unfinished replay" in run("digest", "--data", to, "--partitions", PARTITIONS, "--own", partition).stderr
    again = run("replay", "--data", data, "--partitions", PARTITIONS, "--own", 0, "--to", to)
    assert (0, True) == (again.exit_code, "begun_anew" in again.stderr)
    assert ["0"] == [path.name for path in to.iterdir()]
    assert '"1"\n' == succeed("query", "--data", to, "GET", key_of(0))
