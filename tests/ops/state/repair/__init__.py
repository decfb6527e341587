"""Tests of `ops/state/repair/`."""
