"""Tests of `engine/cleaning/`."""
