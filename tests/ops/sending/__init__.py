"""Tests of `ops/sending/`."""
