"""Tests of `engine/store/`."""
