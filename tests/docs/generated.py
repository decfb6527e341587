"""The parts of `docs/` that come from the code: commands from the registry, settings from their schema.

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

import engine.commands  # noqa: F401 - fills the registry
from engine.registry import SPECS, Spec
from ingest.log import KafkaSettings
from ops.config import Settings

DOCS: Final = Path(__file__).parents[2] / "docs"
_PART: Final = re.compile(r"(<!-- generated: [^\n]* -->\n\n).*?(\n<!-- end -->)", re.DOTALL)


def renewed(name: str) -> str:
    """The page of that name with its generated part as the code has it now."""
    page = (DOCS / name).read_text()
    text, parts = _PART.subn(lambda part: part[1] + PAGES[name]() + part[2], page)
    if parts != 1:
        raise ValueError(f"docs/{name} has {parts} generated parts, not 1")
    return text


def commands() -> str:
    """Every registered command by group: usage, kind, since, summary."""
    specs = sorted(SPECS.values(), key=lambda spec: (spec.group, spec.name))
    tables = []
    for group, members in groupby(specs, key=lambda spec: spec.group):
        rows = [
            (f"`{spec.usage}`", _kind(spec), spec.since.removeprefix("slotlog "), " ".join(spec.summary.split()))
            for spec in members
        ]
        tables.append(f"## {group}\n\n" + _table(("usage", "kind", "since", "what it does"), rows))
    return "\n".join(tables)


def settings() -> str:
    """Every setting: name, environment variable, default, what it may be, meaning."""
    columns = ("name", "environment", "default", "values", "meaning")
    own = Settings.model_json_schema()["properties"]
    own.pop("kafka")
    kafka = KafkaSettings.model_json_schema()["properties"]
    return (
        _table(columns, [_setting(name, f"SLOTLOG_{name.upper()}", schema) for name, schema in own.items()])
        + "\nIn the table `[kafka]`:\n\n"
        + _table(columns, [_setting(name, f"SLOTLOG_KAFKA__{name.upper()}", schema) for name, schema in kafka.items()])
    )


PAGES: Final[dict[str, Callable[[], str]]] = {"commands.md": commands, "settings.md": settings}
"""What makes the generated part of each page."""


def _kind(spec: Spec) -> str:
    if spec.physical:
        return "read, never in an event"
    return "write" if spec.write else "read"


def _setting(name: str, variable: str, schema: dict[str, Any]) -> tuple[str, ...]:
    default = schema.get("default")
    shown = "" if default in {None, ""} else f"`{json.dumps(default)}`"
    return f"`{name}`", f"`{variable}`", shown, _values(schema), schema["description"]


def _values(schema: dict[str, Any]) -> str:
    """What a setting may be, from its JSON schema."""
    schema = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
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
