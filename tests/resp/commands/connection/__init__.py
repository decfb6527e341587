"""Tests of `resp/commands/connection/`."""
