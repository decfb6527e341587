"""Tests of `resp/blocking/`."""
