"""The demo reports true results for the first days of its month, and notices wrong ones."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.proof.digest import Digest
from ops.cli import app
from ops.config import load_settings
from ops.demo import flights as demo_flights
from ops.demo.flights import Flight, read_flights
from ops.demo.run import EARLIER, REPLAYED, STATE, Report, demo_settings, run

FLIGHTS = 500


@pytest.fixture(scope="module")
def first_flights() -> list[Flight]:
    """The first 500 flights of the month."""
    return list(islice(read_flights(), FLIGHTS))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, first_flights: list[Flight]) -> Report:
    """What the demo says about them."""
    settings = demo_settings(load_settings(), tmp_path_factory.mktemp("demo"))
    return asyncio.run(run(settings, first_flights))


@pytest.fixture
def few_flights(monkeypatch: pytest.MonkeyPatch, first_flights: list[Flight]) -> None:
    """Let the verb find only the first flights."""
    monkeypatch.setattr(demo_flights, "read_flights", lambda: iter(first_flights))


def test_everything_is_right(report: Report) -> None:
    """Every read agrees with the table, nothing was refused, and the replayed state has the same digest."""
    assert [] == report.wrong
    assert (report.flights, report.rejected, report.dead_letters) == (FLIGHTS, 0, 0)
    assert report.replayed.digest == report.replayed.live_digest
    assert report.replayed.next_offset == report.sent
    assert report.right


def test_repeated_events_count_once(report: Report) -> None:
    """Of the five flights that are sent twice, the two idempotent events each are recognized."""
    assert report.duplicates == 10


def test_wrong_results_are_noticed(report: Report) -> None:
    """A reply that differs, a rejection, a dead letter or another digest makes the report wrong."""
    first, *rest = report.reads
    off = report._replace(reads=[first._replace(reply=b"0"), *rest])

    assert [first._replace(reply=b"0")] == off.wrong
    assert not off.right
    assert not report._replace(rejected=1).right
    assert not report._replace(dead_letters=1).right


def test_other_digest_is_noticed(report: Report) -> None:
    """A second state that is not the first makes the report wrong."""
    replayed = report.replayed
    changed = type(replayed)(replayed.partition, replayed.next_offset, replayed.clock_ms, Digest(1, 1), replayed.digest)

    assert not report._replace(replayed=changed).right


@pytest.mark.usefixtures("few_flights")
def test_verb_keeps_what_it_made(tmp_path: Path) -> None:
    """With --keep, log and states stay, `query` reads them, and the next demo replaces them."""
    runner = CliRunner()
    for _ in range(2):
        result = runner.invoke(app, ["demo", "--keep", "--data", str(tmp_path)])
        assert (result.exit_code, result.exception) == (0, None)
    state = tmp_path / "demo" / STATE

    assert f"query --data {state} " in result.stdout
    assert "  equal\n" in result.stdout
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == sorted([STATE, REPLAYED])
    assert runner.invoke(app, ["query", "--data", str(state), "GET", "departed:UA"]).stdout.startswith('"')


@pytest.mark.usefixtures("few_flights")
def test_suggested_replay_works_after_every_demo(tmp_path: Path) -> None:
    """The replay that the demo suggests can be typed as it stands, and again after the next demo."""
    runner = CliRunner()
    for _ in range(2):
        printed = runner.invoke(app, ["demo", "--keep", "--data", str(tmp_path)]).stdout
        (suggested,) = [line.split() for line in printed.splitlines() if " replay " in line]
        result = runner.invoke(app, suggested[1:])

        assert (0, None) == (result.exit_code, result.exception)
    assert sorted([STATE, REPLAYED, EARLIER]) == sorted(path.name for path in (tmp_path / "demo").iterdir())


@pytest.mark.usefixtures("few_flights")
def test_verb_leaves_foreign_files_alone(tmp_path: Path) -> None:
    """A directory that holds anything else is not removed."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis.tex").touch()
    result = CliRunner().invoke(app, ["demo", "--keep", "--data", str(tmp_path)])

    assert result.exit_code == 1
    assert (tmp_path / "demo" / "thesis.tex").exists()


@pytest.mark.usefixtures("few_flights")
def test_verb_prints_json(tmp_path: Path) -> None:
    """With --json, standard output is one document; without --keep nothing is left in --data."""
    result = CliRunner().invoke(app, ["demo", "--json", "--data", str(tmp_path)])
    facts = json.loads(result.stdout)

    assert (facts["flights"], facts["reads_wrong"]) == (FLIGHTS, [])
    assert facts["digest"] == facts["replayed_digest"]
    assert list(tmp_path.iterdir()) == []
