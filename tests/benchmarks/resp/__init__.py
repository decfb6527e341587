"""Tests of `benchmarks/resp/`."""
