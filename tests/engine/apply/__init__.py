"""Tests of `engine/apply/`."""
