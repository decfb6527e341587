"""Tests of `engine/commands/sets/`."""
