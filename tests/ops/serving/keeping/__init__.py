"""Tests of `ops/serving/keeping/`."""
