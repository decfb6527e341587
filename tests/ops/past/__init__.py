"""Tests of `ops/past/`."""
