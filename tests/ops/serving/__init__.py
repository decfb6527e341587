"""Tests of `ops/serving/`."""
