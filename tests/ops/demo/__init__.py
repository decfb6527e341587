"""Tests of `ops/demo/`."""
