"""The kinds of panels: one function each, so that all of a kind look alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from grafana_foundation_sdk.builders import common, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models

DATASOURCE: Final = models.DataSourceRef("prometheus", "${datasource}")
_GRAPH_HEIGHT: Final = 8
_NUMBER_HEIGHT: Final = 4
_LETTERS: Final = "ABCDEFGH"

Panel = Builder[models.Panel]
Query = tuple[str, str]
"""PromQL, and the legend of what it gives."""
Steps = Sequence[tuple[float | None, str]]
"""From which value on a panel has which colour; the first one has no value."""

NEUTRAL: Final[Steps] = ((None, "blue"),)
ZERO_IS_GOOD: Final[Steps] = ((None, "green"), (1e-9, "red"))
ONE_IS_GOOD: Final[Steps] = ((None, "red"), (1, "green"))


def graph(title: str, description: str, unit: str, *queries: Query, stacked: bool = False, width: int = 8) -> Panel:
    """Lines over time; `stacked` areas where the sum means something. `unit` is one of Grafana's, width of 24."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .targets(_targets(queries))
        .unit(unit)
        .min(0)
        .height(_GRAPH_HEIGHT)
        .span(width)
        .line_width(1)
        .fill_opacity(30 if stacked else 5)
        .show_points(options.VisibilityMode.NEVER)
        .legend(_legend())
        .tooltip(_tooltip())
    )
    return panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL)) if stacked else panel


def number(title: str, description: str, unit: str, query: Query, steps: Steps = NEUTRAL, width: int = 4) -> Panel:
    """The latest value, large, with its recent course behind it; several series stand beside each other."""
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .targets(_targets([query]))
        .unit(unit)
        .height(_NUMBER_HEIGHT)
        .span(width)
        .thresholds(_thresholds(steps))
        .color_mode(options.BigValueColorMode.VALUE)
        .graph_mode(options.BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def states(title: str, description: str, unit: str, query: Query, names: Mapping[int, tuple[str, str]]) -> Panel:
    """A bar for each series, coloured by what its value stands for: `names` gives each value its text and colour."""
    mapping = models.ValueMap(
        {str(value): models.ValueMappingResult(text, colour) for value, (text, colour) in names.items()}
    )
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .targets(_targets([query]))
        .unit(unit)
        .height(_GRAPH_HEIGHT)
        .span(8)
        .mappings([mapping])
        .merge_values(True)
        .show_value(options.VisibilityMode.NEVER)
        .legend(_legend())
    )


def _targets(queries: Sequence[Query]) -> list[Builder[Dataquery]]:
    return [
        prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(letter).datasource(DATASOURCE).range()
        for letter, (expression, legend) in zip(_LETTERS, queries, strict=False)
    ]


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    return (
        builders.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value, colour) for value, colour in steps])
    )


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(options.LegendDisplayMode.LIST)
        .placement(options.LegendPlacement.BOTTOM)
    )


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING)
