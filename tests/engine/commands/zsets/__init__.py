"""Tests of `engine/commands/zsets/`."""
