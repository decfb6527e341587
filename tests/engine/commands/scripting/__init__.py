"""Tests of `engine/commands/strings/`."""
