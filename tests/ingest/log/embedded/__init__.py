"""Tests of `ingest/log/embedded/`."""
