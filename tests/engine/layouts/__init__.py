"""Tests of `engine/layouts/`."""
