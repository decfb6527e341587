"""Tests of `engine/tables/`."""
