"""The dashboards keep the rules of grafana/dashboard-linter."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.dashboards import linter
from tests.dashboards.files import NAMES, dashboard
from tests.dashboards.linter import RULES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", RULES)
def test_dashboard_keeps_the_rule(name: str, rule: str) -> None:
    """No violation of this rule in this dashboard."""
    assert [] == RULES[rule](dashboard(name))


def test_rules_are_those_of_the_linter() -> None:
    """All 17 rules are here, but for those about another data source."""
    assert 17 == len(RULES.keys() | linter.NOT_FOR_PROMETHEUS)


def _spoil(rule: str, spoilt: Any) -> None:
    variables = {variable["name"]: variable for variable in spoilt["templating"]["list"]}
    panel = next(panel for panel in spoilt["panels"] if panel["type"] != "row")
    match rule:
        case "template-datasource-rule":
            variables["datasource"]["name"] = "ds"
        case "template-job-rule":
            spoilt["templating"]["list"].remove(variables["job"])
        case "template-instance-rule":
            variables["instance"]["multi"] = False
        case "template-label-promql-rule":
            variables["partition"]["query"] = "label_values(a{, partition)"
        case "template-on-time-change-reload-rule":
            variables["partition"]["refresh"] = 1
        case "panel-datasource-rule":
            panel["targets"][0]["datasource"]["uid"] = "prometheus"
        case "panel-title-description-rule":
            panel["description"] = ""
        case "panel-units-rule":
            panel["fieldConfig"]["defaults"]["unit"] = "parsec"
        case "panel-no-targets-rule":
            panel["targets"] = []
        case "uneditable-dashboard":
            spoilt["editable"] = True
        case _:
            panel["targets"][0]["expr"] = {
                "target-promql-rule": "sum(",
                "target-rate-interval-rule": 'rate(a{job=~"$job", instance=~"$instance"}[5m])',
                "target-job-rule": 'a{job="slotlog", instance=~"$instance"}',
                "target-instance-rule": 'a{job=~"$job"}',
                "target-counter-agg-rule": 'sum(a_total{job=~"$job", instance=~"$instance"})',
            }[rule]


@pytest.mark.parametrize("rule", RULES)
def test_rule_finds_a_violation(rule: str) -> None:
    """A dashboard that is spoilt in this one respect is found by the rule."""
    spoilt = copy.deepcopy(dashboard("overview"))
    _spoil(rule, spoilt)

    assert [] != RULES[rule](spoilt)
