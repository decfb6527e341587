"""`slotlog replay --processes`: partitions side by side, ended together by Ctrl-C, a failure or a kill."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from slotlog.events import encode
from slotlog.log import Entry
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.ops.verbs import run, succeed, wait_until, write_lines

PARTITIONS = 3
EVENTS: list[dict[str, Any]] = [
    *({"cmd": "HSET", "args": [f"key-{n % 5000}", f"f{n}", n]} for n in range(30_000)),
    {"cmd": "LPUSH", "args": ["key-1", "of another type"]},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
    {"cmd": "INCR", "args": ["n"], "id": "once"},
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three partitions, without a state."""
    directory = tmp_path_factory.mktemp("log")
    lines = write_lines(directory / "events", EVENTS)
    succeed("produce", lines, "--data", directory / "data", "--partitions", PARTITIONS)
    return directory / "data"


def words(data: Path, to: Path, processes: int) -> list[str]:
    """The verb."""
    return [
        *("replay", "--data", str(data), "--partitions", str(PARTITIONS), "--to", str(to)),
        *("--processes", str(processes)),
    ]


def test_processes_change_nothing(data: Path, tmp_path: Path) -> None:
    """Each number of processes gives the same results, to the last count, and states that are sound."""
    said = {
        processes: json.loads(succeed(*words(data, tmp_path / f"{processes}", processes), "--json"))
        for processes in (1, 2, 5)
    }

    assert said[1] == said[2] == said[5]
    not_applied = [each["not_applied"] for each in said[1]["partitions"]]
    assert (1, 1) == tuple(sum(each[kind] for each in not_applied) for kind in ("rejected", "duplicates"))
    assert ["0", "1", "2"] == sorted(path.name for path in (tmp_path / "2").iterdir())
    assert succeed("check", "--data", tmp_path / "1") == succeed("check", "--data", tmp_path / "2")


async def append_rules(path: Path) -> None:
    """Append to partition 1 what no engine knows."""
    log = EmbeddedLog(path, topic="slotlog", partitions=PARTITIONS)
    await log.start()
    await log.append([Entry(1, None, encode("RULES", ["99"]))])
    await log.close()


def test_what_stops_one_ends_all(data: Path, tmp_path: Path) -> None:
    """The partition and its reason are said in one line, and what was built is no state."""
    lines = write_lines(tmp_path / "events", EVENTS[:50])
    succeed("produce", lines, "--data", tmp_path / "other", "--partitions", PARTITIONS)
    asyncio.run(append_rules(tmp_path / "other" / "log.sqlite3"))
    result = run(*words(tmp_path / "other", tmp_path / "to", 2))

    assert 1 == result.exit_code
    assert re.fullmatch(
        r"slotlog: partition 1 stopped: .*RULES.*\n", without_progress(result.stderr.splitlines(keepends=True))
    )
    assert "holds an unfinished replay or conversion" in run("digest", "--data", tmp_path / "to").stderr


def children(process: subprocess.Popen[str]) -> list[int]:
    """The processes that a verb has started."""
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Those of them that build something."""
    return [child for child in children(process) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def under_way(data: Path, to: Path) -> Iterator[subprocess.Popen[str]]:
    """A replay in two processes, which stand still in the midst of it. At the end it is over, and so are they."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", *words(data, to, 2)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not all(any((to / str(n)).glob("*.sst")) for n in range(2)):  # the first table of a state has its mark
            assert process.poll() is None
            sleep(0.001)
        building, started = workers(process), children(process)
        for each in building:
            os.kill(each, signal.SIGSTOP)
        yield process
        for each in building:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)
        process.wait()
        wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in started), "its processes to end")
    finally:
        process.kill()
        process.wait()


def said_by(process: subprocess.Popen[str]) -> str:
    """What stands on its stderr, but for its progress."""
    assert process.stderr is not None
    with process.stderr as lines:
        return without_progress(lines)


def without_progress(lines: Iterable[str]) -> str:
    """What a replay says that is quick: on a busy machine lines tell how far it is."""
    return "".join(line for line in lines if '"event": "replay"' not in line)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C on the terminal of all."""
    os.killpg(process.pid, signal.SIGINT)


def kill_one(process: subprocess.Popen[str]) -> None:
    """What the system does when memory is short."""
    os.kill(workers(process)[0], signal.SIGKILL)


INTERRUPTED = "slotlog: interrupted: {to} holds no state; the same command begins anew\n"
ENDED = (
    "slotlog: a process of this command was ended from outside, for its memory perhaps: what was being built does not "
    "count. Run the command again, with fewer --processes\n"
)


@pytest.mark.parametrize(
    ("end", "code", "said"), [(interrupt, 130, INTERRUPTED), (kill_one, 1, ENDED)], ids=["interrupt", "kill"]
)
def test_one_end_for_all(
    end: Callable[[subprocess.Popen[str]], None], code: int, said: str, data: Path, tmp_path: Path
) -> None:
    """After Ctrl-C, or the death of one, all processes are gone, one line says why, and the same command works."""
    to = tmp_path / "to"
    with under_way(data, to) as process:
        end(process)
    errors = said_by(process)

    assert (code, said.format(to=to)) == (process.returncode, errors)
    assert "holds an unfinished replay or conversion" in run("digest", "--data", to).stderr
    again = run(*words(data, to, 1))
    assert (0, True) == (again.exit_code, "begun_anew" in again.stderr)


def test_a_killed_replay_leaves_no_process(data: Path, tmp_path: Path) -> None:
    """After kill -9 of the command its processes end by themselves."""
    with under_way(data, tmp_path / "to") as process:
        process.kill()

    said_by(process)
    assert -9 == process.returncode
