"""Tests of `engine/commands/lists/`."""
