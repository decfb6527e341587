"""Prometheus metrics: `CATALOG` lists them, `Metrics` counts and exposes them."""

from __future__ import annotations

from ops.metrics.catalog import CATALOG, GROUPS
from ops.metrics.record import LABELS, Label, Metric, MetricKind
from ops.metrics.service import Metrics, Watched

__all__ = ["CATALOG", "GROUPS", "LABELS", "Label", "Metric", "MetricKind", "Metrics", "Watched"]
