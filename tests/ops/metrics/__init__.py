"""Tests of `ops/metrics/`."""
