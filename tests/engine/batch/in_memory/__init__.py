"""Tests of `engine/batch/in_memory/`."""
