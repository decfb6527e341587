"""Tests of `benchmarks/streams/`."""
