"""Tests of `resp/settings/`."""
