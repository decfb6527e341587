"""Tests of `ops/state/clocks/`."""
