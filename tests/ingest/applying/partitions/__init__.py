"""Tests of `ingest/applying/partitions/`."""
