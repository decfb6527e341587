"""Tests of `ops/dead_letters/`."""
