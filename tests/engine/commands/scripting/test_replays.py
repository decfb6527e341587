"""A log of scripts gives the same bytes in every process, whatever its environment, batches and history."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Final

import msgpack
import pytest

from engine.scripts.runtime import ScriptRuntime
from tests.engine.commands.scripting import replay
from tests.engine.commands.scripting.script_log import script_records
from tests.engine.scripts.libraries.comparison import RANDOM_PIECES

_PORTION: Final = 2000
_PROGRAM: Final = (sys.executable, "-m", replay.__name__)
_OUTCOMES: Final = (
    *(b"it ran more than", b"it allocated more than", b"stack overflow", b"Error compiling script", b"NOSCRIPT"),
    *(b"ACL failure in script", b"have no order", b"value is not an integer", b"WRONGTYPE", b"table: 0x00000001"),
    *(b"Function not found", b"on @user_function:", b"Error compiling function"),
)
"""What some scripts of the log must have come to."""


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with locales that have a decimal comma; one has another upper case of the letter i."""
    directory = tmp_path_factory.mktemp("locales")
    for name in ("de_DE", "tr_TR"):
        subprocess.run(["localedef", "-i", name, "-f", "UTF-8", directory / f"{name}.UTF-8"], check=True)
    return directory


def _replays(file: Path, locales: Path) -> list[bytes]:
    """What four processes print that differ in all that a script must not see."""
    runs = (
        (["--batch", "1000"], {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}),
        (["--batch", "1", "--restart-every", "97"], {"PYTHONHASHSEED": "2", "LC_ALL": "POSIX", "TZ": "Asia/Tokyo"}),
        (["--batch", "7", "--reads", "--decimal", ","], {"PYTHONHASHSEED": "3", "LC_ALL": "de_DE.UTF-8", "TZ": "EST"}),
        (
            ["--batch", "100", "--reads", "--restart-every", "3", "--decimal", ","],
            {"PYTHONHASHSEED": "4", "LC_ALL": "de_DE.UTF-8", "TZ": "Europe/Berlin", "PYTHONMALLOC": "malloc"},
        ),
    )
    running = [
        subprocess.Popen(
            [*_PROGRAM, file, *options], env=os.environ | {"LOCPATH": str(locales)} | variables, stdout=subprocess.PIPE
        )
        for options, variables in runs
    ]
    printed = [process.communicate()[0] for process in running]
    assert [0] * len(runs) == [process.returncode for process in running]
    return printed


@pytest.mark.timeout(7200)
def test_any_log_of_scripts_gives_the_same_bytes(tmp_path: Path, locales: Path) -> None:
    """Records and replies are equal under other hash seeds, locales, time zones, batches, restarts and reads.

    Among the scripts are some that end by a limit in a used runtime and in one of their own.
    """
    random = Random() if RANDOM_PIECES else Random(3)
    count, file = max(400, RANDOM_PIECES // 10), tmp_path / "records"
    for first in range(0, count, _PORTION):
        file.write_bytes(msgpack.packb(list(script_records(random, min(_PORTION, count - first)))))
        printed = _replays(file, locales)
        assert "" == _first_difference(printed)
        assert [] == [outcome for outcome in _OUTCOMES if outcome.hex().encode() not in printed[0]]


@pytest.mark.parametrize(
    ("category", "name"),
    [(locale.LC_NUMERIC, "de_DE.UTF-8"), (locale.LC_COLLATE, "de_DE.UTF-8"), (locale.LC_CTYPE, "tr_TR.UTF-8")],
)
def test_another_locale_is_refused(category: int, name: str, locales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No script runs where a number has a comma, `a` stands before `B`, or the upper case of `i` is no `I`."""
    monkeypatch.setenv("LOCPATH", str(locales))
    before = locale.setlocale(category)
    locale.setlocale(category, name)
    try:
        with pytest.raises(RuntimeError, match="of the C locale"):
            ScriptRuntime()
    finally:
        locale.setlocale(category, before)


def _first_difference(printed: list[bytes]) -> str:
    """The first lines in which the processes differ."""
    lines = zip_longest(*(text.splitlines() for text in printed))
    return next((repr(each) for each in lines if len(set(each)) > 1), "")
