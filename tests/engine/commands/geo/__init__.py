"""Tests of `engine/commands/geo/`."""
