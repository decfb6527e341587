"""Tests of `ingest/applying/batches/`."""
