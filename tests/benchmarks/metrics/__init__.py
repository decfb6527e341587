"""Tests of `benchmarks/metrics/`."""
