"""Tests of `engine/scripts/`."""
