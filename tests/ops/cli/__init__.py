"""Tests of `ops/cli/`."""
