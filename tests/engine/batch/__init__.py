"""Tests of `engine/batch/`."""
