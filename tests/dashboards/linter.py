"""The rules of grafana/dashboard-linter, under their names: each gives the violations of one dashboard.

Stricter in one thing: what it asks of some kinds of panels, all panels here have to keep.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.dashboards.promql import parse, ranges, regular_expressions, selectors

Dashboard = dict[str, Any]
DATASOURCE: Final = "${datasource}"
QUERY: Final = re.compile(r"([a-z_]+)\((.+), ([a-z_]+)\)")
"""The query of a variable: function, selector, label."""
QUERY_FUNCTIONS: Final = frozenset({"label_names", "label_values", "metrics", "query_result"})
COUNTING: Final = frozenset({"increase", "irate", "rate"})
UNITS: Final = frozenset({"Bps", "bool", "bytes", "none", "ops", "percentunit", "reqps", "s", "short", "string"})
"""Those of Grafana's units that the linter knows and slotlog's dashboards need."""

NOT_FOR_PROMETHEUS: Final = {
    "target-logql-rule": "LogQL is Loki's language",
    "target-logql-auto-rule": "$__auto is for Loki's ranges",
}


def panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """The panels, headings of rows left out."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def targets(dashboard: Dashboard) -> Iterator[str]:
    """Every query."""
    return (target["expr"] for panel in panels(dashboard) for target in panel["targets"])


def variables(dashboard: Dashboard, kind: str) -> list[dict[str, Any]]:
    """The variables of a kind, `datasource` or `query`."""
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == kind]


def template_datasource(dashboard: Dashboard) -> list[Any]:
    """One data source, of Prometheus, chosen by a variable of the name and label that are usual."""
    found = [(one["name"], one["label"], one["query"]) for one in variables(dashboard, "datasource")]
    return [] if found == [("datasource", "Data source", "prometheus")] else [found]


def template_job(dashboard: Dashboard) -> list[Any]:
    """The variable `job`."""
    return _template(dashboard, "job")


def template_instance(dashboard: Dashboard) -> list[Any]:
    """The variable `instance`."""
    return _template(dashboard, "instance")


def template_label_promql(dashboard: Dashboard) -> list[Any]:
    """Values of variables come from one of Grafana's functions, of a selector that is PromQL."""
    wrong = []
    for variable in variables(dashboard, "query"):
        query = QUERY.fullmatch(variable["query"])
        if query is None or query[1] not in QUERY_FUNCTIONS or not _parses(query[2]):
            wrong.append(variable["query"])
    return wrong


def template_on_time_change_reload(dashboard: Dashboard) -> list[Any]:
    """Values of variables are asked for anew when the time range changes."""
    return [one["name"] for one in variables(dashboard, "query") if one["refresh"] != 2]


def panel_datasource(dashboard: Dashboard) -> list[Any]:
    """Panels and their targets ask the data source that is chosen."""
    asked = [part for panel in panels(dashboard) for part in (panel, *panel["targets"])]
    return [part for part in asked if part["datasource"] != {"type": "prometheus", "uid": DATASOURCE}]


def panel_title_description(dashboard: Dashboard) -> list[Any]:
    """Panels have a title and a description."""
    return [panel for panel in panels(dashboard) if not (panel["title"] and panel["description"])]


def panel_units(dashboard: Dashboard) -> list[Any]:
    """Panels have a unit that Grafana knows, in their defaults."""
    units = [(panel["title"], panel["fieldConfig"]["defaults"].get("unit")) for panel in panels(dashboard)]
    return [(title, unit) for title, unit in units if unit not in UNITS]


def panel_no_targets(dashboard: Dashboard) -> list[Any]:
    """Panels ask for something."""
    return [panel["title"] for panel in panels(dashboard) if not panel["targets"]]


def target_promql(dashboard: Dashboard) -> list[Any]:
    """Queries are PromQL."""
    return [target for target in targets(dashboard) if not _parses(target)]


def target_rate_interval(dashboard: Dashboard) -> list[Any]:
    """Ranges of rates are $__rate_interval, and no range is anything else."""
    return [target for target in targets(dashboard) if re.search(r"\[(?!\$__rate_interval\])", target)]


def target_job(dashboard: Dashboard) -> list[Any]:
    """Every selector has job=~"$job"."""
    return _without_matcher(dashboard, "job")


def target_instance(dashboard: Dashboard) -> list[Any]:
    """Every selector has instance=~"$instance"."""
    return _without_matcher(dashboard, "instance")


def target_counter_agg(dashboard: Dashboard) -> list[Any]:
    """Counters are looked at through rate, irate or increase."""
    return [target for target in targets(dashboard) if _bare_counters(target)]


def uneditable(dashboard: Dashboard) -> list[Any]:
    """The dashboard cannot be edited."""
    return [] if dashboard["editable"] is False else ["editable"]


RULES: Final[dict[str, Callable[[Dashboard], list[Any]]]] = {
    "template-datasource-rule": template_datasource,
    "template-job-rule": template_job,
    "template-instance-rule": template_instance,
    "template-label-promql-rule": template_label_promql,
    "template-on-time-change-reload-rule": template_on_time_change_reload,
    "panel-datasource-rule": panel_datasource,
    "panel-title-description-rule": panel_title_description,
    "panel-units-rule": panel_units,
    "panel-no-targets-rule": panel_no_targets,
    "target-promql-rule": target_promql,
    "target-rate-interval-rule": target_rate_interval,
    "target-job-rule": target_job,
    "target-instance-rule": target_instance,
    "target-counter-agg-rule": target_counter_agg,
    "uneditable-dashboard": uneditable,
}


def _template(dashboard: Dashboard, name: str) -> list[Any]:
    wanted = {"label": name.capitalize(), "multi": True, "allValue": ".+", "includeAll": True}
    found = [one for one in variables(dashboard, "query") if one["name"] == name]
    return [
        wrong
        for one in found or [{}]
        if (wrong := {key: one.get(key) for key, value in wanted.items() if one.get(key) != value})
        or (wrong := {} if one["datasource"]["uid"] == DATASOURCE else one["datasource"])
    ]


def _without_matcher(dashboard: Dashboard, label: str) -> list[Any]:
    return [
        target
        for target in targets(dashboard)
        for selector in selectors(target)
        if regular_expressions(selector).get(label) != f"${label}"
    ]


def _bare_counters(target: str) -> Counter[str]:
    """Names of counters that stand in more places than those where a rate is taken of them."""
    everywhere = Counter(selector.name or "" for selector in selectors(target))
    counted = Counter(call.selector.vector_selector.name or "" for call in ranges(target) if call.function in COUNTING)
    return Counter({name: times for name, times in everywhere.items() if name.endswith("_total")}) - counted


def _parses(expression: str) -> bool:
    try:
        parse(expression)
    except ValueError:
        return False
    return True
