"""Tests of `ops/state/reports/`."""
