"""Tests of `ingest/log/`."""
