"""Tests of `ops/serving/group/`."""
