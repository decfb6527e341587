"""Tests of `engine/commands/bitmaps/`."""
