"""The parts of `docs/` that come from the code: commands from the registry, settings from their schema.

The pages on performance and scale have figures of a run of the benchmarks.

A page holds such a part between two comments, `<!-- generated: … -->` and `<!-- end -->`; the rest is written by hand.
`make docs` renews the parts, `tests/docs/test_generated.py` proves that they are current.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

import resp.commands  # noqa: F401 - fills both registries
from benchmarks.results import scale
from benchmarks.results.figures import results_of
from benchmarks.results.page import part
from engine.commands.registry import SPECS, Spec
from ops.change_settings import ChangeSettings
from ops.config import KafkaTable, Settings
from ops.group_settings import GroupSettings
from ops.metrics import GROUPS as METRICS
from ops.metrics import LABELS, Metric
from ops.past_settings import PastSettings
from ops.redis_settings import RedisSettings
from ops.snapshot_settings import SnapshotSettings
from resp.catalog.server_registry import SERVER_SPECS, ServerSpec
from resp.settings.config import all_parameters
from tests.docs.missing import MISSING

DOCS: Final = Path(__file__).parents[2] / "docs"
GROUPS: Final[dict[str, type]] = {
    "redis": RedisSettings,
    "group": GroupSettings,
    "snapshots": SnapshotSettings,
    "changes": ChangeSettings,
    "past": PastSettings,
    "kafka": KafkaTable,
}
"""The settings that stand in tables of their own."""

RUN: Final = DOCS / "performance.jsonl"
"""What a run of the benchmarks has found."""

CHART: Final = DOCS / "performance.svg"

_PART: Final = re.compile(r"(<!-- generated: [^\n]* -->\n\n).*?(\n<!-- end -->)", re.DOTALL)


def renewed(name: str) -> str:
    """The page of that name with its generated part as the code has it now."""
    page = (DOCS / name).read_text()
    text, parts = _PART.subn(lambda part: part[1] + PAGES[name]() + part[2], page)
    if parts != 1:
        raise ValueError(f"docs/{name} has {parts} generated parts, not 1")
    return text


def commands() -> str:
    """Every registered command by group, HELP of the containers left out, and the commands that there are not."""
    specs: list[Spec | ServerSpec] = [spec for name, spec in SERVER_SPECS.items() if not name.endswith(b"|HELP")]
    specs = sorted([*SPECS.values(), *specs], key=lambda spec: (spec.group, spec.name))
    tables = []
    for group, members in groupby(specs, key=lambda spec: spec.group):
        rows = [
            (
                f"`{spec.usage}`",
                _kind(spec),
                spec.since,
                spec.complexity,
                " ".join(spec.summary.split()),
            )
            for spec in members
        ]
        tables.append(f"## {group}\n\n" + _table(("usage", "kind", "since", "complexity", "what it does"), rows))
    return "\n".join([*tables, _missing()])


def _missing() -> str:
    """What Valkey has and slotlog has not."""
    rows = [
        (", ".join(f"`{name.upper().replace('|', ' ')}`" for name in names.split()), reason)
        for names, reason in MISSING.items()
    ]
    return "## Not there\n\n" + _table(("commands of Valkey 9.1", "why"), rows)


def settings() -> str:
    """Every setting: name, environment variable, default, what it may be, meaning."""
    own = Settings.model_json_schema()["properties"]
    for name in GROUPS:
        own.pop(name)
    tables = [_settings(own, "SLOTLOG_")]
    for name, group in GROUPS.items():
        tables.append(f"In the table `[{name}]`:\n")
        tables.append(_settings(TypeAdapter(group).json_schema()["properties"], f"SLOTLOG_{name.upper()}__"))
    return "\n".join(tables)


def parameters() -> str:
    """Every parameter of CONFIG but the process' own settings: names, default, whether CONFIG SET changes it."""
    rows = [
        (f"`{each.name}`", f"`{each.alias}`" if each.alias else "", _code(each.default), "yes" if each.mutable else "")
        for each in sorted(all_parameters(), key=lambda parameter: parameter.name)
    ]
    return _table(("name", "also called", "default", "CONFIG SET changes it"), rows)


def metrics() -> str:
    """Every metric by what it is about, then the labels with their bounds."""
    columns = ("name", "kind", "unit", "labels", "what it tells", "measured")
    tables = [f"## {name}\n\n" + _table(columns, [_metric(each) for each in group]) for name, group in METRICS.items()]
    rows = [(f"`{name}`", label.bound, str(label.values_max or "")) for name, label in LABELS.items()]
    return "\n".join([*tables, "## Labels\n\n" + _table(("label", "bounded by", "values"), rows)])


def _metric(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", metric.kind, metric.unit, labels, metric.help, metric.source


def performance() -> str:
    """The chart and the tables of the run of the benchmarks that is kept, if one is."""
    return part(results_of(_run_lines()), CHART.name)


def at_scale() -> str:
    """What the figures of that run come to with many events and keys."""
    return scale.part(results_of(_run_lines()))


def _run_lines() -> list[str]:
    return RUN.read_text().splitlines() if RUN.exists() else []


PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands.md": commands,
    "metrics.md": metrics,
    "parameters.md": parameters,
    "performance.md": performance,
    "scale.md": at_scale,
    "settings.md": settings,
}
"""What makes the generated part of each page."""


def _kind(spec: Spec | ServerSpec) -> str:
    if isinstance(spec, ServerSpec):
        return "server"
    if spec.physical:
        return (
            "read, in an event by scripts alone"
            if spec.sorted_in_scripts or spec.whole_in_scripts
            else "read, never in an event"
        )
    return "write" if spec.write else "read"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _settings(schemas: dict[str, Any], prefix: str) -> str:
    columns = ("name", "environment", "default", "values", "meaning")
    return _table(columns, [_setting(name, f"{prefix}{name.upper()}", schema) for name, schema in schemas.items()])


def _setting(name: str, variable: str, schema: dict[str, Any]) -> tuple[str, ...]:
    default = schema.get("default")
    shown = "" if default in {None, ""} else f"`{json.dumps(default)}`"
    return f"`{name}`", f"`{variable}`", shown, _values(schema), schema["description"]


def _values(schema: dict[str, Any]) -> str:
    """What a setting may be, from its JSON schema."""
    if schema.get("format") == "password":
        return "secret"
    schema = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "maximum" in schema and "exclusiveMinimum" in schema:
        return f"more than {schema['exclusiveMinimum']}, up to {schema['maximum']}"
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f"{schema['minimum']} and more"
    if "exclusiveMinimum" in schema:
        return f"more than {schema['exclusiveMinimum']}"
    return {"path": "path", "password": "secret"}.get(schema.get("format", ""), str(schema["type"]))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a `|` within a cell does not end it."""
    lines = [columns, ("---",) * len(columns), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
