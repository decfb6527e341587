"""Tests of `engine/commands/hashes/`."""
