"""Tests of `ingest/dead_letters/`."""
