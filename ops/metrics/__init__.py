"""Prometheus metrics: `CATALOG` lists them, `Metrics` counts and exposes them."""

from __future__ import annotations

from ops.metrics.catalog import CATALOG, GROUPS
from ops.metrics.record import LABELS, Kind, Label, Metric
from ops.metrics.service import Metrics, Watched

__all__ = ["CATALOG", "GROUPS", "LABELS", "Kind", "Label", "Metric", "Metrics", "Watched"]
