"""The files of `dashboards/` as tests look at them: panels with their queries, rules, alerts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

FOLDER: Final = Path(__file__).parents[2] / "dashboards"
RULES: Final = FOLDER / "alerts.yml"
RULE_TESTS: Final = FOLDER / "alerts_test.yml"
NAMES: Final = ("overview", "ingestion", "storage", "clients")


class Rule(NamedTuple):
    """One recording rule or alert."""

    name: str
    expression: str
    labels: dict[str, str]
    annotations: dict[str, str]


@cache
def dashboard(name: str) -> Any:
    """The committed JSON of a dashboard."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def panels(name: str) -> list[dict[str, Any]]:
    """The panels of a dashboard, headings of rows left out."""
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def expressions(name: str) -> list[tuple[str, str]]:
    """Every query of a dashboard, with the title of its panel."""
    return [(panel["title"], target["expr"]) for panel in panels(name) for target in panel["targets"]]


@cache
def recordings() -> tuple[Rule, ...]:
    """The recording rules of alerts.yml."""
    return _rules("record")


@cache
def alerts() -> tuple[Rule, ...]:
    """The alerts of alerts.yml."""
    return _rules("alert")


def _rules(kind: str) -> tuple[Rule, ...]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return tuple(
        Rule(rule[kind], rule["expr"], rule.get("labels", {}), rule.get("annotations", {}))
        for group in groups
        for rule in group["rules"]
        if kind in rule
    )
