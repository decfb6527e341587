"""Tests of `benchmarks/cleaning/`."""
