"""Tests of `ops/state/`."""
