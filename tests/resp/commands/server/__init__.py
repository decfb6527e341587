"""Tests of `resp/commands/server/`."""
