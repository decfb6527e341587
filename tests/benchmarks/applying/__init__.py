"""Tests of `benchmarks/applying/`."""
