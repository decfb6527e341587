"""Runs the client programs: what `make test` has brought of them is in .cache/clients/."""

from __future__ import annotations

import json
import os
import subprocess
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
    """What java/SOURCE reports; the launcher compiles it in memory."""
    jars = _installed(INSTALLED / "java")
    options = ["-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    return _report(["java", *options, str(HERE / "java" / source), str(port), prefix])


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


def _installed(path: Path) -> Path:
    if not path.exists():
        raise ProgramError(f"{path} is not there: make test brings it")
    return path
