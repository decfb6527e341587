"""Panels show rare moments correctly, by promtool's evaluation of their queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.dashboards.files import expressions
from tests.dashboards.promql import substituted
from tests.dashboards.test_alerts import promtool

LABELS: Final = 'job="slotlog", instance="a:8640"'
OTHER: Final = {'up{job="node", instance="n:9100"}': "1x10"}
ANSWERS: Final = {f'slotlog_build_info{{{LABELS}, version="0.1.0"}}': "1x10"}
AWAY: Final = {f'ALERTS{{alertname="SlotlogDown", alertstate="firing", severity="critical", {LABELS}}}': "1x10"}
LAG: Final = {f'slotlog_lag_events{{{LABELS}, partition="{n}"}}': f"{n + 3}x10" for n in range(2)}
SHOWN: Final = '{instance="a:8640"}'


def shown(
    tmp_path: Path, panel: str, series: dict[str, str], samples: dict[str, float], dashboard: str = "overview"
) -> tuple[int, str]:
    """What promtool says of a panel with `All` chosen: whether it shows these samples alone at the tenth minute."""
    (query,) = [query for title, query in expressions(dashboard) if title == panel]
    expected: list[dict[str, Any]] = [{"labels": labels, "value": value} for labels, value in samples.items()]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": substituted(query), "eval_time": "10m", "exp_samples": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    return promtool("test", "rules", file)


@pytest.mark.parametrize(
    ("series", "alerts"),
    [(OTHER, 1), (OTHER | ANSWERS, 0), (OTHER | AWAY, 1), (OTHER | ANSWERS | AWAY, 1)],
    ids=["nobody", "one that answers", "one that is away", "one of each"],
)
def test_nobody_to_scrape_is_an_alert_that_is_shown(tmp_path: Path, series: dict[str, str], alerts: float) -> None:
    """SlotlogAbsent has neither job nor instance to be chosen by; it counts all the same, and is not counted twice."""
    code, output = shown(tmp_path, "Alerts firing", series, {"{}": alerts})

    assert 0 == code, output


@pytest.mark.parametrize(("known", "samples"), [("1x10", {SHOWN: 7.0}), ("0x10", {})], ids=["known", "not known"])
def test_a_lag_that_is_not_known_is_no_line(tmp_path: Path, known: str, samples: dict[str, float]) -> None:
    """The sum of the last answers is not drawn as if it were the lag, once one of them is old."""
    series = LAG | {f'slotlog_lag_known{{{LABELS}, partition="{n}"}}': v for n, v in enumerate(("1x10", known))}
    code, output = shown(tmp_path, "Lag in events", series, samples)

    assert 0 == code, output


def test_partitions_whose_lag_is_known_keep_their_lines(tmp_path: Path) -> None:
    """Partition by partition: the one that is not known has no line, the other has."""
    series = LAG | {f'slotlog_lag_known{{{LABELS}, partition="{n}"}}': f"{n}x10" for n in range(2)}
    code, output = shown(tmp_path, "Lag in events", series, {'{instance="a:8640", partition="1"}': 4}, "ingestion")

    assert 0 == code, output
