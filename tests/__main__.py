"""Runs all tests: sessions of pytest, several at a time, and those of states on the other layouts.

Most of the time a session waits: for servers to start and to end, for what a broker notices late, for a minute of load.
So twice as many sessions run as the machine has processors, and the next one begins when one has ended. They share one
Kafka broker, where each test has topics of its own; other servers, temporary directories and ports are each session's.
A folder that no session names is in `others`, new ones among them; one that a session names within a folder of another
one is its own. With arguments it is one session, with those.

`layouts` is a dose of what is about states, on each other layout (`tests/layouts/__main__.py`; `make nightly` has the
full ones), and `python_alone` is one without the compiled hot path (`tests/python_alone.py`).

All processes of a session share compiled modules, whatever PYTHONDONTWRITEBYTECODE says: hundreds of them import the
same ones, and to compile those takes a process longer than the rest of its start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from types import MappingProxyType
from typing import Final

from tests.real.fixtures import RUNNING_BROKER_VARIABLE, session_broker
from tests.real.process import PORTS_VARIABLE

ROOT: Final = Path(__file__).parents[1]
PYTEST: Final = (sys.executable, "-m", "pytest")
AT_ONCE: Final = 2 * (os.cpu_count() or 1)

PORTS: Final = range(20_000, 32_000)
"""What the sessions share out: see `tests.real.process`."""

OTHERS: Final = "others"

FOLDERS: Final = MappingProxyType(
    {
        OTHERS: (),  # all that no other one has
        "faults": ("faults",),
        "brokers": ("faults/cluster",),
        "resp": ("resp",),
        "ops": ("ops",),
        "serving": ("ops/serving", "ops/state"),
        "oracle": ("differential", "linearizability", "wire"),
        "installed": ("applications", "deploy", "docs"),
        "outside": ("benchmarks", "clients", "dashboards", "real"),
    }
)
"""The folders of each session."""

ORDER: Final = (
    *("faults", OTHERS, "serving", "ops", "installed", "outside"),
    *("resp", "layouts", "oracle", "brokers", "python_alone"),
)
"""All sessions, those first that take long, so that none runs alone at the end."""


def main() -> int:
    """Run them all; returns the exit code of a session that failed, or 0."""
    free: SimpleQueue[range] = SimpleQueue()
    each = len(PORTS) // AT_ONCE
    for number in range(AT_ONCE):
        free.put(PORTS[number * each : (number + 1) * each])
    speaking, failed = threading.Lock(), list[str]()
    with (
        tempfile.TemporaryDirectory() as directory,
        session_broker(Path(directory)) as broker,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        variables = _environment() | {RUNNING_BROKER_VARIABLE: broker}
        running = [
            threads.submit(_run, name, words, variables, free, speaking, failed) for name, words in _sessions().items()
        ]
        try:
            codes = [session.result() for session in running]
        except KeyboardInterrupt:  # those that run have heard of it as well, and end in order
            threads.shutdown(cancel_futures=True)
            return 130
    sys.stdout.writelines(failed)  # once more at the end, where the reader of a long output looks first
    return next((code for code in codes if code), 0)  # not the larger one: a killed session's is negative


def _sessions() -> dict[str, tuple[str, ...]]:
    """The command of each, by its name, in their order."""
    words = {name: [*(f"tests/{folder}" for folder in own), *_ignored(name)] for name, own in FOLDERS.items()}
    commands = {name: (*PYTEST, "-o", f"cache_dir=.cache/pytest-{name}", *words[name]) for name in words}
    commands |= {name: (sys.executable, "-m", f"tests.{name}") for name in ("layouts", "python_alone")}
    return {name: commands[name] for name in sorted(commands, key=ORDER.index)}


def _ignored(name: str) -> Iterator[str]:
    """Leave out what other sessions have of its folders."""
    own = [f"{folder}/" for folder in FOLDERS[name]] or [""]
    for other, folders in FOLDERS.items():
        if other != name:
            yield from (f"--ignore=tests/{folder}" for folder in folders if folder.startswith(tuple(own)))


def _run(
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    free: SimpleQueue[range],
    speaking: threading.Lock,
    failed: list[str],
) -> int:
    """Run one session, then print what it said, so that the lines of several do not mix; returns its exit code.

    The lines that name its failures are added to `failed`.
    """
    began, ports = monotonic(), free.get()
    with tempfile.TemporaryFile() as output:
        own = {**variables, PORTS_VARIABLE: f"{ports[0]}-{ports[-1]}"}
        _say(speaking, f"==> {name} begins\n")
        code = subprocess.run(command, cwd=ROOT, env=own, stdout=output, stderr=output, check=False).returncode
        free.put(ports)
        output.seek(0)
        said = output.read().decode(errors="replace")
        _say(speaking, f"==> {name}\n{said}")
        ended = f"==> {name}: exit code {code} after {monotonic() - began:.0f} s\n"
        _say(speaking, ended)
    if code:
        failed += [line for line in said.splitlines(keepends=True) if line.startswith(("FAILED ", "ERROR "))]
        failed.append(ended)
    return code


def _say(speaking: threading.Lock, text: str) -> None:
    with speaking, suppress(BrokenPipeError):  # the reader of the output has gone; the exit code is there
        sys.stdout.write(text)
        sys.stdout.flush()


def _environment() -> dict[str, str]:
    """The variables of a session but for its ports."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return variables | {"PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "bytecode")}


if __name__ == "__main__":
    if sys.argv[1:]:
        os.execve(sys.executable, [*PYTEST, *sys.argv[1:]], _environment())  # noqa: S606 - this Python, and no shell
    sys.exit(main())
