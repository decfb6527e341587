"""The generated parts of the pages match the code, and the samples beside them work."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.results.chart import drawn
from benchmarks.results.figures import panels_of, results_of
from engine.commands.registry import SPECS
from ops.config import Settings, load_settings
from slotlog.log import KafkaSettings
from tests.docs.command_table import TABLE, rendered
from tests.docs.generated import CHART, DOCS, PAGES, RUN, renewed


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_current(name: str) -> None:
    """The page's generated part is what the code gives; `make docs` mends it."""
    assert renewed(name) == (DOCS / name).read_text()


def test_chart_is_current() -> None:
    """The chart on the page on performance is that of the run whose figures the page has; `make docs` mends it."""
    panels = panels_of(results_of(RUN.read_text().splitlines())) if RUN.exists() else []

    assert (drawn(panels) if panels else None) == (CHART.read_text() if CHART.exists() else None)


def test_command_table_is_current() -> None:
    """Clients know of each command what the engine's registry says; `make docs` mends it."""
    assert rendered() == TABLE.read_text()


def test_every_command_is_shown() -> None:
    """The page has each command of the registry, with a summary, and EXEC, which is none of them."""
    page = (DOCS / "commands.md").read_text()
    rows = [line.replace(r"\|", "|") for line in page.splitlines()]
    shown = [spec for spec in SPECS.values() if any(row.startswith(f"| `{spec.usage}` |") for row in rows)]

    assert list(SPECS.values()) == shown
    assert [] == [spec.name for spec in shown if not spec.summary]
    assert "- `EXEC` is" in page


def test_every_setting_says_what_it_is_for() -> None:
    """No setting is without a description."""
    described = {name: setting.description for name, setting in Settings.model_fields.items()}
    described |= {setting.name: setting.metadata["description"] for setting in fields(KafkaSettings)}

    assert [] == [name for name, description in described.items() if not description]


def test_sample_file_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's slotlog.toml is taken whole, with the password from the environment."""
    sample = (DOCS / "settings.md").read_text().partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "slotlog.toml").write_text(sample)
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("SLOTLOG_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SLOTLOG_KAFKA__SASL_PASSWORD", "from-the-environment")

    settings = load_settings()

    assert ("kafka://b1.example:9093,b2.example:9093", "SASL_SSL") == (settings.log, settings.kafka.security_protocol)
    assert "from-the-environment" == settings.kafka.sasl_password
    assert "from-the-environment" not in repr(settings)
    assert [0, 1, 2, 3] == settings.owned
