"""Tests of `benchmarks/layouts/`."""
