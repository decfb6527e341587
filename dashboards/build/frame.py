"""The frame of all dashboards: variables, links, rows, time ranges."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from dashboards.build.panels import DATASOURCE, Panel

TAG: Final = "slotlog"
_ANY: Final = ".+"
"""What `All` of a variable matches, as grafana/dashboard-linter wants it: every series that has the label."""

Row = tuple[str, list[Panel]]
"""A heading, and the panels below it from left to right."""


def dashboard(name: str, description: str, rows: list[Row]) -> models.Dashboard:
    """The dashboard `slotlog-NAME`: it cannot be edited in Grafana, as a change there would be lost."""
    builder = (
        builders.Dashboard(f"slotlog / {name.capitalize()}")
        .uid(f"slotlog-{name}")
        .description(description)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(_link_to_the_others())
    )
    for variable in _variables():
        builder.with_variable(variable)
    number = 0
    for heading, panels in rows:
        number += 1
        builder.with_row(builders.Row(heading).id(number))
        for panel in panels:
            number += 1
            panel.build().id_val = number
            builder.with_panel(panel)
    return builder.build()


def _variables() -> list[builders.DatasourceVariable | builders.QueryVariable]:
    datasource = builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    info, known = "slotlog_build_info", "slotlog_lag_known"  # this one is there for every partition, however it is
    return [
        datasource,
        _query("job", f"label_values({info}, job)"),
        _query("instance", f'label_values({info}{{job=~"$job"}}, instance)'),
        _query("partition", f'label_values({known}{{job=~"$job", instance=~"$instance"}}, partition)'),
    ]


def _query(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(name.capitalize())
        .query(query)
        .datasource(DATASOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NUMERICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(_ANY)
        .current(models.VariableOption(text="All", value="$__all"))
    )


def _link_to_the_others() -> builders.DashboardLink:
    return (
        builders.DashboardLink("slotlog")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )
