"""Tests of `ingest/applying/slicing/`."""
