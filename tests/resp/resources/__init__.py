"""Tests of `resp/resources/`."""
