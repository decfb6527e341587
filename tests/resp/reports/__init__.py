"""Tests of `resp/reports/`."""
