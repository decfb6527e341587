"""Tests of the import from a directory that Phase 1 wrote."""
