"""Tests of `ops/serving/pages/`."""
