"""The committed dashboards are what the builder makes, and ask for metrics that there are."""

from __future__ import annotations

import pytest

from dashboards.build.write import built
from ops.metrics import CATALOG
from tests.dashboards.files import FOLDER, NAMES, alerts, dashboard, expressions, panels, recordings
from tests.dashboards.promql import compared, names, regular_expressions, selectors, substituted

OF_PROMETHEUS = {"ALERTS", "up"}
LISTED = {name for metric in CATALOG for name in metric.series_names}
MADE = {rule.name for rule in recordings()}


@pytest.mark.parametrize("name", NAMES)
def test_file_is_current(name: str) -> None:
    """The JSON in the repository is the builder's, byte for byte; `python -m dashboards.build` mends it."""
    assert built()[f"{name}.json"] == (FOLDER / f"{name}.json").read_text()


def test_every_dashboard_is_known() -> None:
    """The builder makes the four dashboards that the tests look at, and no other JSON lies beside them."""
    assert sorted(f"{name}.json" for name in NAMES) == sorted(built()) == sorted(p.name for p in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_dashboard_asks_for_metrics_that_there_are(name: str) -> None:
    """Every metric of every query is in the closed list, recorded by a rule, or Prometheus' own."""
    asked = {metric for _, expression in expressions(name) for metric in names(expression)}

    assert set() == asked - LISTED - MADE - OF_PROMETHEUS


@pytest.mark.parametrize("name", NAMES)
def test_partitions_can_be_chosen(name: str) -> None:
    """Every selector of a metric with a partition has the matcher of the variable."""
    partitioned = {series for metric in CATALOG if "partition" in metric.labels for series in metric.series_names}
    partitioned |= {series for series in MADE if series.startswith("partition:")}
    found = [selector for _, expression in expressions(name) for selector in selectors(expression)]
    matchers = {
        str(selector): regular_expressions(selector).get("partition")
        for selector in found
        if selector.name in partitioned
    }

    assert set(matchers.values()) <= {"$partition"}
    assert bool(matchers)


@pytest.mark.parametrize("name", NAMES)
def test_other_processes_are_not_shown(name: str) -> None:
    """With all jobs chosen, what any process may expose is asked of slotlog's alone: Prometheus scrapes itself too."""
    shared = {metric.name for metric in CATALOG if not metric.name.startswith("slotlog_")}
    asked = [names(expression) for _, expression in expressions(name)]

    assert [] == [metrics for metrics in asked if metrics & shared and "slotlog_build_info" not in metrics]


def test_a_process_that_is_away_is_not_ready() -> None:
    """The panel says so as well when a process answers no scrape, and so has no `slotlog_ready` of its own."""
    asked = [names(expression) for title, expression in expressions("overview") if title == "Ready"]

    assert [{"slotlog_ready", "ALERTS"}] == asked


def test_rules_ask_for_metrics_that_there_are() -> None:
    """The same of alerts.yml."""
    asked = {metric for rule in (*alerts(), *recordings()) for metric in names(rule.expression)}

    assert set() == asked - LISTED - MADE - OF_PROMETHEUS


def test_every_recorded_series_is_used() -> None:
    """What a rule records, an alert or a panel asks for."""
    asked = [expression for name in NAMES for _, expression in expressions(name)]
    asked += [rule.expression for rule in alerts()]

    assert set() == MADE - {metric for expression in asked for metric in names(expression)}


def test_every_metric_of_ours_is_shown() -> None:
    """There is no metric that no panel and no rule asks for: it would be measured for nobody."""
    asked = [expression for name in NAMES for _, expression in expressions(name)]
    asked += [rule.expression for rule in (*alerts(), *recordings())]
    shown = {metric for expression in asked for metric in names(expression)}
    ours = {metric.name: shown & set(metric.series_names) for metric in CATALOG if metric.name.startswith("slotlog_")}

    assert [] == [name for name, series in ours.items() if not series]


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_side_by_side(name: str) -> None:
    """Every panel has a number and a title of its own, lies within the width of 24, and covers no other."""
    found = panels(name)
    cells = [
        (x, y)
        for panel in found
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(found) == len({panel["id"] for panel in found}) == len({panel["title"] for panel in found})
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_lead_to_each_other(name: str) -> None:
    """Each links to all with its tag, and takes times and variables along."""
    (link,) = dashboard(name)["links"]

    assert ["slotlog"] == link["tags"] == dashboard(name)["tags"]
    assert (True, True) == (link["includeVars"], link["keepTime"])


def test_sides_of_comparisons_are_found() -> None:
    """What an alert compares is what stands left of its comparisons, in every part, and the series of absent()."""
    assert ["rate(a_total{}[5m])", "b{}"] == compared("rate(a_total[5m]) > 1 and on (job) (b == 0)")
    assert ['up{job="x"}'] == compared('absent(up{job="x"})')


def test_variables_are_substituted() -> None:
    """With `All` chosen a variable matches every value, and no variable is left."""
    assert 'rate(a{job=~".+"}[10s])' == substituted('rate(a{job=~"$job"}[$__rate_interval])')
