"""Runs programs of real libraries while their server is killed, and tells what work they have done.

A program appends a line to the file WORK for each piece of work, so what was done is known without the server. When so
many lines are there, the server is killed and started again, and gets a line in the file OUTAGES. A program that wants
to be at a certain place during an outage waits for that line. On the oracle nothing is killed: there the same program
shows what it does, and that the test asks for no more than the library promises.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.applications.programs import ROOT, installed, kill_group, present
from tests.clients.programs import ProgramError
from tests.wire.servers import RespServer

TIMEOUT_S: Final = 100
POLL_S: Final = 0.01
LARGE_DOSE: Final = 500
LARGE_TIMEOUT_S: Final = 400

TOOLS: Final = ROOT / ".cache" / "outages"
HERE: Final = Path(__file__).parent


class Done(NamedTuple):
    """What a program did.

    Attributes:
        report: what it printed, which is JSON.
        work: the lines that it wrote, in their order.
        outages: how often the server was killed meanwhile.
    """

    report: Any
    work: list[str]
    outages: int


class Dose(NamedTuple):
    """How much work a program of a stream gets, and how often its server is killed meanwhile.

    `make nightly` sets OUTAGE_ENTRIES.
    """

    entries: int = int(os.environ.get("OUTAGE_ENTRIES", "60"))

    @property
    def kill_at(self) -> list[int]:
        """So many pieces of work are done at each kill: one in a small dose, else five."""
        kills = 1 if self.entries < LARGE_DOSE else 5
        return [self.entries * kill // (kills + 1) for kill in range(1, kills + 1)]

    @property
    def environment(self) -> dict[str, str]:
        """What the program is told."""
        return {"ENTRIES": str(self.entries), "KILLS": str(len(self.kill_at))}


class Outages:
    """A server that is killed while programs work.

    Args:
        name: oracle or slotlog.
        server: runs already.
        kills: whether it is killed at all.
    """

    def __init__(self, name: str, server: RespServer, *, kills: bool) -> None:
        self.name: Final = name
        self._server = server
        self._kills = kills

    def prepare(self, directory: Path) -> dict[str, str]:
        """Empty the server; returns the variables of a program, and of its workers, with its work in `directory`."""
        with closing(self._server.connect()) as connection:
            connection.call("FLUSHALL")
        host, port = self._server.address
        return {
            "APPLICATION_URL": f"redis://{host}:{port}/0",
            "PYTHONPATH": str(ROOT),
            "WORK": str(directory / "work"),
            "OUTAGES": str(directory / "outages"),
        }

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        kill_at: Sequence[int],
        timeout_s: float = TIMEOUT_S,
    ) -> Done:
        """Run a program to its end, and kill the server each time that it has done so many pieces of work.

        Raises:
            ProgramError: it ended with an error, before the last kill, or not in time; the message carries its output.
        """
        work, outages = Path(environment["WORK"]), Path(environment["OUTAGES"])
        work.touch()
        outages.touch()
        said = work.with_name("said")
        with (
            said.open("wb") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                cwd=ROOT,
                start_new_session=True,
            ) as process,
        ):
            try:
                for lines in kill_at:
                    self._wait_for(lines, work, process)
                    if self._kills:
                        self._server.kill()
                        self._server.start()
                    with outages.open("a") as file:
                        file.write(f"{lines}\n")
                output, _ = process.communicate(timeout=timeout_s)
            except (ProgramError, subprocess.TimeoutExpired) as error:
                kill_group(process)
                output, _ = process.communicate()
                raise ProgramError(f"{error}\n{_all(output, said, work)}") from error
            finally:
                kill_group(process)
        if process.returncode:
            raise ProgramError(f"{' '.join(command)} ended with {process.returncode}\n{_all(output, said, work)}")
        return Done(json.loads(output), work.read_text().splitlines(), len(kill_at) if self._kills else 0)

    def _wait_for(self, lines: int, work: Path, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while len(work.read_text().splitlines()) < lines:
            if process.poll() is not None:
                raise ProgramError(f"it ended with {process.returncode} before it had done {lines} pieces of work")
            if time.monotonic() > deadline:
                raise ProgramError(f"it did not do {lines} pieces of work in {TIMEOUT_S} s")
            time.sleep(POLL_S)


def python(program: str) -> list[str]:
    """The command that runs outage_programs/PROGRAM."""
    return [str(installed("python")), "-m", f"tests.applications.outage_programs.{program}"]


def node(program: str) -> list[str]:
    """The command that runs node/PROGRAM."""
    modules = present(TOOLS / "node" / "node_modules")
    return ["env", f"NODE_PATH={modules}", "node", str(HERE / "node" / program)]


def go(program: str) -> list[str]:
    """The command that runs the program of go/PROGRAM."""
    return [str(present(TOOLS / "go" / program))]


def ruby(source: str) -> list[str]:
    """The command that runs ruby/SOURCE."""
    return ["ruby", str(HERE / "ruby" / source)]


def java(program: str) -> list[str]:
    """The command that runs the class PROGRAM of java/."""
    jars = present(TOOLS / "java")
    return ["java", "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/programs:{jars}/*", program]


def again(count: int, done: Done) -> list[int]:
    """The numbers of so many pieces of work: each one once or, if there was a kill, again as often as it was done."""
    more = Counter(done.work) - Counter(map(str, range(count))) if done.outages else Counter[str]()
    return sorted([*range(count), *map(int, more.elements())])


def _all(output: bytes, said: Path, work: Path) -> str:
    lines = work.read_text().splitlines()
    return f"{output.decode(errors='replace')}\n{said.read_text(errors='replace')}\n{len(lines)} pieces of work"
