"""Tests of `ops/state/rebuilding/`."""
