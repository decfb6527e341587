"""Tests of `resp/statistics/`."""
