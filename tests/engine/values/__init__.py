"""Tests of `engine/values/`."""
