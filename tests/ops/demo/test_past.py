"""The demo's walk through the past of one flight."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from ops.cli.other.demo import past_lines
from ops.config import load_settings
from ops.demo.flights import read_flights
from ops.demo.past import MORNING_MS
from ops.demo.run import Report, demo_settings, run

_DAY_MS = 24 * 3_600_000
README = (Path(__file__).parents[3] / "README.md").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Of the flights of that night, and a few others: the last one of the month is among them."""
    flights = list(read_flights())
    some = [*flights[::200], *(each for each in flights if 0 < MORNING_MS - each.time_ms < _DAY_MS / 2)]
    some.append(max(flights, key=lambda each: each.time_ms))
    settings = demo_settings(load_settings(), tmp_path_factory.mktemp("demo"))
    return asyncio.run(run(settings, list(dict.fromkeys(some))))


def test_the_page_shows_what_it_prints(report: Report) -> None:
    """README.md has the walk, line by line."""
    (shown,) = re.findall(r"^```text\n(past .*?)^```$", README, re.DOTALL | re.MULTILINE)

    assert shown.splitlines() == past_lines(report.past)


def test_the_undo_is_part_of_the_proof(report: Report) -> None:
    """The flight had left the board, one event brings it back, and the replayed state has it, too."""
    past = report.past

    assert ([], past.then, 1) == (past.now, past.after, past.undone.events)
    assert report.replayed.next_offset == report.sent + 1
    assert report.right


def test_a_wrong_past_is_noticed(report: Report) -> None:
    """A hash that does not come back, a history without events or another board makes the report wrong."""
    past = report.past

    for wrong in (past._replace(after=[]), past._replace(history=[]), past._replace(board=past.board[1:])):
        assert not report._replace(past=wrong).right
