"""Tests of `engine/commands/generic/`."""
