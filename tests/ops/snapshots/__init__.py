"""Tests of `ops/snapshots/`."""
