"""`make nightly` runs what there is, and one dose that fails does not end it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests import nightly
from tests.tidy.source import ROOT


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "LOGS", tmp_path)


@cache
def _source() -> str:
    """All of the tests but the list of doses."""
    return "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "nightly.py")


@pytest.mark.parametrize("name", nightly.DOSES)
def test_doses_name_what_there_is(name: str) -> None:
    """Every path of a dose exists, and some test reads each of its variables."""
    words = nightly.DOSES[name].split()
    variables = [word.split("=")[0] for word in words if nightly.WITH_VALUE.match(word)]

    assert [] == [word for word in words if word.startswith("tests/") and not (ROOT / word).exists()]
    assert [] != variables
    assert [] == [name for name in variables if f'"{name}"' not in _source()]


def test_a_dose_that_fails_does_not_end_the_night(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is run, the exit code is that of the first failure, and the end says which dose it was, and why."""
    doses = {"bad": "A=1 pytest none.py", "good": "B=2 pytest --version", "left": "pytest none.py"}
    monkeypatch.setattr(nightly, "DOSES", doses)
    code = nightly.main(["bad", "good"])
    said = capfd.readouterr().out
    ends = re.findall(r"^(\w+) +\d+\.\d min  (.*)$", said, re.MULTILINE)

    assert (4, [("bad", "exit code 4"), ("good", "passed")]) == (code, ends)
    assert "==> good, 2 of 2, " in said
    assert "ERROR: file or directory not found: none.py" in said.split("==> good")[0]


def test_each_night_draws_anew(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its seed is said first, and tests read what comes of it; no two nights share one; one's own variable counts."""
    shows = 'A=1 timeit -n 1 -r 1 \'import os; print(os.environ["LINKS_SEED"], os.environ["SIMULATION_FIRST_SEED"])\''
    monkeypatch.setattr(nightly, "DOSES", {"shows": shows})
    monkeypatch.setattr(nightly, "NIGHT", "7")
    for name in nightly.seeds_of(7):
        monkeypatch.delenv(name, raising=False)
    drawn = nightly.main([]), capfd.readouterr().out.splitlines()
    monkeypatch.setenv("LINKS_SEED", "3")
    own = nightly.main([]), capfd.readouterr().out.splitlines()
    monkeypatch.setattr(nightly, "NIGHT", "x")

    assert (0, "==> NIGHT_SEED=7 repeats the draws of this night", "7 14000") == (drawn[0], drawn[1][0], drawn[1][2])
    assert (0, "3 14000") == (own[0], own[1][2])
    assert nightly.SIMULATIONS == int(nightly.seeds_of(8)["SIMULATION_FIRST_SEED"]) - 14000
    assert [] == [name for name in nightly.seeds_of(7) if f'"{name}"' not in _source()]
    assert 2 == nightly.main([])


def test_a_night_that_is_ended_says_how_far_it_came(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second dose: the line of the first one is there."""
    done = iter([nightly.Done("simulation", 0, 90, [])])

    def run(_name: str, _line: str) -> nightly.Done:
        try:
            return next(done)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(nightly, "run", run)
    assert 130 == nightly.main([])
    assert "\n\nsimulation        1.5 min  passed\n" in capfd.readouterr().out


def test_what_a_dose_lacks_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    """A name that no dose has runs nothing."""
    assert 2 == nightly.main(["group", "gruop"])
    assert "no dose: gruop; there are simulation disk " in capfd.readouterr().err
