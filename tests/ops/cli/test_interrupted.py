"""Ctrl-C ends a verb with exit code 130 and without a traceback, also while it imports."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ops.cli import main
from tests.ops.past.logs import write_log

INTERRUPTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background would ignore it
sys.meta_path.insert(0, Interrupting())
sys.argv = ["slotlog", *{words!r}]
from ops.entry import main
main()
"""


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("structlog", ["dump"]),
        ("ops.cli.app", ["dump"]),
        ("ops.serving.process", ["export", "--to", "x"]),
        ("ops.state.opening.directories", ["dump"]),
        ("ops.past.history", ["history", "a"]),
        ("ops.sending.produce", ["produce", "-"]),
        ("ops.demo.run", ["demo"]),
    ],
)
def test_during_an_import(name: str, words: list[str], more: list[str], tmp_path: Path) -> None:
    """Whether the program is imported or what a verb needs: code 130, and nothing is said."""
    data = write_log(tmp_path / "data", [(0, "SET", ["a", "v"])])
    text = INTERRUPTING.format(name=name, words=[*words, *more, "--data", str(data)])
    done = subprocess.run([sys.executable, "-c", text], input="", capture_output=True, text=True, check=False)

    assert (130, "", "") == (done.returncode, done.stdout, done.stderr)


def test_before_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the imports and the verb it ends in the same way."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("ops.cli.app"), "tune_collector", interrupt)
    with pytest.raises(SystemExit) as ended:
        main()

    assert 130 == ended.value.code
