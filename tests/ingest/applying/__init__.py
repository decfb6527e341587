"""Tests of `ingest/applying/`."""
