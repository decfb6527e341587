"""Tests of `resp/commands/`."""
