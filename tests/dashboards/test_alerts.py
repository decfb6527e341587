"""alerts.yml is sound, and promtool's tests of it have every alert fire and not fire."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.dashboards.files import RULE_TESTS, RULES, Rule, alerts, recordings
from tests.dashboards.promql import parse

NAMES: Final = [alert.name for alert in alerts()]


def promtool(*words: str | Path) -> tuple[int, str]:
    """Exit code and output."""
    program = shutil.which("promtool")
    assert program is not None, "apt-get install prometheus"
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_rules_are_sound() -> None:
    """`promtool check rules` finds nothing."""
    code, output = promtool("check", "rules", RULES)

    assert 0 == code, output
    assert f"{len(alerts()) + len(recordings())} rules found" in output


def test_alerts_fire_when_they_should() -> None:
    """`promtool test rules`: each alert fires for what is wrong, says what it should, and for nothing else."""
    code, output = promtool("test", "rules", RULE_TESTS)

    assert 0 == code, output


@cache
def rule_tests() -> Any:
    """alerts_test.yml."""
    return yaml.safe_load(RULE_TESTS.read_text())


def test_a_wrong_rule_is_found(tmp_path: Path) -> None:
    """The tests of the rules can fail: with another threshold, one does."""
    spoilt = RULES.read_text().replace("slotlog_lag_seconds > 60", "slotlog_lag_seconds > 600")
    tests = [test for test in rule_tests()["tests"] if test["name"] == "SlotlogLag"]
    (tmp_path / RULES.name).write_text(spoilt)
    (tmp_path / RULE_TESTS.name).write_text(yaml.safe_dump({**rule_tests(), "tests": tests}))
    code, output = promtool("test", "rules", tmp_path / RULE_TESTS.name)

    assert 0 != code
    assert "alertname: SlotlogLag, time: 8m" in output


def expected(name: str) -> list[list[Any]]:
    """What the tests expect of an alert, one list of firing alerts for each moment that they look at."""
    cases = [case for test in rule_tests()["tests"] for case in test.get("alert_rule_test", [])]
    return [case.get("exp_alerts", []) for case in cases if case["alertname"] == name]


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_is_tested_firing_and_not(name: str) -> None:
    """The tests of the rules have a moment when the alert fires, and one when it does not."""
    assert {True, False} == {bool(firing) for firing in expected(name)}


@pytest.mark.parametrize("alert", alerts(), ids=NAMES)
def test_alert_keeps_the_conventions(alert: Rule) -> None:
    """Name with the shared first word, severity, summary, description, and a link to its section of the runbook."""
    assert re.fullmatch(r"Slotlog([A-Z][a-z0-9]+)+", alert.name)
    assert alert.labels.keys() == {"severity"}
    assert alert.labels["severity"] in {"critical", "warning", "info"}
    assert {"summary", "description", "runbook_url"} == alert.annotations.keys()
    assert f"docs/runbook.md#{alert.name.lower()}" == alert.annotations["runbook_url"]
    assert "{{" not in alert.annotations["summary"]


@pytest.mark.parametrize("rule", [*alerts(), *recordings()], ids=lambda rule: rule.name)
def test_expression_is_promql(rule: Rule) -> None:
    """A second parser than Prometheus' agrees."""
    assert str(parse(rule.expression))


@pytest.mark.parametrize("rule", recordings(), ids=lambda rule: rule.name)
def test_recording_is_named_by_convention(rule: Rule) -> None:
    """level:metric:operation."""
    assert re.fullmatch(r"(instance|partition):slotlog_[a-z_]+:[a-z0-9_]+", rule.name)
