"""Tests of `resp/wire/`."""
