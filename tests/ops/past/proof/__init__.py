"""Tests of `ops/past/proof/`."""
