"""Tests of `ops/state/opening/`."""
