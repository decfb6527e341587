"""Tests of `engine/batch/keys/`."""
