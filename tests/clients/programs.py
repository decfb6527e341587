"""Runs the client programs: what `make test` has brought of them is in .cache/clients/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".cache" / "clients"
TIMEOUT_S = 60


class ProgramError(RuntimeError):
    """A client program is not there or ended with an error; the message carries what it said."""


def node(script: str, port: int, prefix: str) -> Any:
    """What node/SCRIPT reports."""
    modules = _installed(INSTALLED / "node" / "node_modules")
    return _report(["node", str(HERE / "node" / script), str(port), prefix], {"NODE_PATH": str(modules)})


def go(program: str, port: int, prefix: str) -> Any:
    """What the program of go/PROGRAM reports."""
    return _report([str(_installed(INSTALLED / "go" / program)), str(port), prefix])


def java(source: str, port: int, prefix: str) -> Any:
    """What java/SOURCE reports."""
    return _report([*_java(source), str(port), prefix])


def run(command: Sequence[str], text: bytes = b"", environment: dict[str, str] | None = None) -> str:
    """The standard output of a program that gets `text` as its input.

    Raises:
        ProgramError: It ended with another code than 0.
    """
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace")
        raise ProgramError(f"{' '.join(command)} ended with {done.returncode}\n{output}")
    return done.stdout.decode()


def _report(command: Sequence[str], environment: dict[str, str] | None = None) -> Any:
    return json.loads(run(command, environment=environment))


def _java(source: str) -> list[str]:
    """How java/SOURCE is run; the launcher compiles it in memory."""
    jars = _installed(INSTALLED / "java")
    options = ["-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    return ["java", *options, str(HERE / "java" / source)]


def _installed(path: Path) -> Path:
    if not path.exists():
        raise ProgramError(f"{path} is not there: make test brings it")
    return path


class Counting:
    """A program that counts keys of a cluster up, one request at a time, until it is told to end.

    Args:
        command: the program, which gets a port and the prefix of its keys.
        environment: more variables for it.

    Attributes:
        dots: so often it has counted 50.
        report: `counts`, the last reply of each key, and `errors` that its library has let through; when it has ended.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.dots = 0
        self.report: dict[str, Any] = {}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def end(self) -> dict[str, Any]:
        """Let it end; its report.

        Raises:
            ProgramError: it ends without one.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(TIMEOUT_S)
        self._reading.join()
        if not self.report:
            raise ProgramError(f"{self._process.args!r} ended with {self._process.returncode}, and without a report")
        return self.report

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.report = json.loads(line)
            else:
                self.dots += 1


def counting(port: int, names: Sequence[str]) -> dict[str, Counting]:
    """Counting programs of these cluster clients, by their names, which are their keys' prefixes."""
    modules = {"NODE_PATH": str(_installed(INSTALLED / "node" / "node_modules"))}
    commands: dict[str, tuple[list[str], dict[str, str] | None]] = {
        "redis-py": ([sys.executable, "-m", "tests.clients.counting"], None),
        "ioredis": (["node", str(HERE / "node" / "ioredis_counting.js")], modules),
        "node-redis": (["node", str(HERE / "node" / "node_redis_counting.js")], modules),
        "go-redis": ([str(_installed(INSTALLED / "go" / "counting"))], None),
        "Jedis": (_java("JedisCounting.java"), None),
        "Lettuce": (_java("LettuceCounting.java"), None),
        "redis-rb": (["ruby", str(HERE / "ruby" / "redis_rb_counting.rb")], None),
    }
    return {name: Counting([*commands[name][0], str(port), name], commands[name][1]) for name in names}
