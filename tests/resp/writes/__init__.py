"""Tests of `resp/writes/`."""
