"""Tests of `engine/proof/`."""
