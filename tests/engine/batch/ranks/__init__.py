"""Tests of `engine/batch/ranks/`."""
